"""Rate limits as policies: each holds for all workers together; in Celery, for each worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import close_old_connections

from pgqueue import signals
from pgqueue.compat.celery.current import discovery
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.utils.rate_limits import rate_of
from pgqueue.tasks import registry
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")


def apply() -> None:
    """Set a policy for each task with a rate_limit, unless the same policy exists.

    Messages of such a task have its name as their key, so the policy holds for no other task.
    """
    discovery.import_all()
    for own in registry.each():
        if isinstance(own, CeleryTask) and (rate := rate_of(own.origin.rate_limit_now)):
            _state(own.origin.own, *rate)


def _state(own: CeleryTask, rate: float, per: float) -> None:
    from pgqueue.operating.channels import (
        Channel,  # needs models, which are not loaded when apps are made
    )

    channel = Channel(own.queue_name, database=own.database)
    policy = channel.policy_of(own.name)
    if policy and (policy.key, policy.rate, policy.per) == (own.name, rate, timedelta(seconds=per)):
        return
    channel.policy(rate=rate, per=per, key=own.name)
    logger.info(
        "%s: its rate_limit, %g in %g s, holds for all workers together, as a policy of the "
        "channel %s",
        own.name,
        rate,
        per,
        own.queue_name,
    )


def _starting(sender: Any, **kwargs: Any) -> None:
    try:
        apply()
    finally:
        close_old_connections()


signals.worker_starting.connect(_starting, weak=False)
