"""Rate limits as policies: each holds for all workers together; in Celery, for each worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import DatabaseError, close_old_connections

from pgqueue import signals
from pgqueue.compat.celery.current import discovery
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.compat.celery.utils.rate_limits import rate_of
from pgqueue.exceptions import PGQueueError
from pgqueue.tasks import registry
from pgqueue.values.escaping import logger_of

logger = logger_of("pgqueue")


def apply() -> None:
    """Set a policy for each task with a rate_limit, unless the same policy exists.

    Messages of such a task have its name as their key, so the policy holds for no other task. Log
    an error for each policy that is refused: its task runs without this limit.
    """
    discovery.import_all()
    for own in registry.each():
        if not isinstance(own, CeleryTask):
            continue
        try:
            if rate := rate_of(own.origin.rate_limit_now):
                _state(own.origin.own, *rate)
        except (PGQueueError, DatabaseError) as error:
            logger.error(
                "%s: its rate_limit does not hold, since no policy could be set: %s. A role that "
                "may not change policies needs the policy beforehand: manage.py pgqueue_channel "
                "policy %s --key %s --rate N --per SECONDS",
                own.name,
                str(error).strip().rstrip("."),
                own.queue_name,
                own.name,
            )


def _state(own: CeleryTask, rate: float, per: float) -> None:
    from pgqueue.operating.channels import (
        Channel,  # needs models, which are not loaded when apps are made
    )

    channel, period = Channel(own.queue_name, database=own.database), timedelta(seconds=per)
    policy = channel.policy_of(own.name)
    if policy is None or policy.key != own.name:
        channel.policy(rate=rate, per=per, key=own.name)
    elif (policy.rate, policy.per) == (rate, period):
        return
    else:  # further limits of this policy are an operator's
        policy.rate, policy.per = rate, period
        policy.save(using=channel.alias, update_fields=["rate", "per"])
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
