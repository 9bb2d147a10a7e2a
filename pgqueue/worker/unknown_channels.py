"""Warn of channels that a worker serves and no one uses: a name may be misspelled."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import psycopg
from django.conf import settings

from pgqueue import signals
from pgqueue.engine import channels
from pgqueue.engine.values import Connection
from pgqueue.tasks import registry
from pgqueue.worker.config import WorkerConfig


def warn_of_unseen(connection: Connection, config: WorkerConfig) -> None:
    """Send `channels_unseen` if the worker serves a channel that was never seen.

    A channel was seen if a task or a setting of the project names it, if it is configured or
    limited, or if it has a message or had one lately. The worker serves unseen channels, too: their
    messages may come later.

    Args:
        connection: a connection to the queue's database. Its errors are ignored here.
    """
    if not config.channels or not config.slots:
        return
    with suppress(psycopg.Error):
        unseen, known = _unseen(connection, config.channels, config.database)
        if unseen:
            signals.send(signals.channels_unseen, None, channels=unseen, known=known)


def _unseen(
    connection: Connection, served: Iterable[str], alias: str
) -> tuple[list[str], list[str]]:
    """Return the served channels that were never seen, and the known channels."""
    in_use = channels.in_use(connection, limit=channels.LIMIT)
    # At the limit there may be more channels: names behind the last one may be in use.
    last = in_use[-1] if len(in_use) == channels.LIMIT else None
    known = _declared(alias).union(in_use)
    unseen = {name for name in served if name not in known and (last is None or name < last)}
    if unseen:
        unseen -= set(channels.ended(connection, sorted(unseen)))
    return sorted(unseen), sorted(known)


def _declared(alias: str) -> set[str]:
    """Return the channels that the project's code and settings name."""
    declared = {each.queue_name for each in registry.each() if each.alias == alias}
    for backend in getattr(settings, "TASKS", {}).values():
        declared.update(backend.get("QUEUES") or ())
    return declared
