"""`app.control.inspect()`: the state of the workers, from their rows and from messages."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NoReturn

from django.apps import apps

from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.request import given_id
from pgqueue.compat.celery.running import CeleryTask
from pgqueue.conf import settings
from pgqueue.tasks import redacting, registry
from pgqueue.values.instants import aware

MOST = 1000
"""The maximum of listed messages of each kind."""


class Inspect:
    """Lists the live workers and their messages. Each method asks the database.

    Answers are dicts by the names of workers, `celery@HOST:PID`; None: no worker is alive.

    Args:
        destination: names of workers; None: all workers.
    """

    def __init__(self, destination: Any = None, timeout: Any = None, **others: Any) -> None:
        several = [destination] if isinstance(destination, str) else destination
        self._asked: Collection[str] | None = several

    def ping(self, destination: Any = None) -> Any:
        """Return a "pong" for each live worker."""
        return self._each(lambda worker: {"ok": "pong"})

    def active(self, safe: Any = None) -> Any:
        """Return the messages that each worker runs."""
        running = list(_messages(state="running"))
        return self._each(
            lambda worker: [_told(each) for each in running if each.worker_id == worker.pk]
        )

    def scheduled(self, safe: Any = None) -> Any:
        """Return the messages that wait for their time: the same for each worker."""
        waiting = [
            {
                "eta": aware(each.run_at).isoformat(),
                "priority": each.priority // 10,
                "request": _told(each),
            }
            for each in _messages(state="scheduled")
        ]
        return self._each(lambda worker: waiting)

    def reserved(self, safe: Any = None) -> Any:
        """Return an empty list for each worker: a worker claims a message as it starts it."""
        return self._each(lambda worker: [])

    def revoked(self) -> Any:
        """Return an empty list for each worker: a revoked message ends at once."""
        return self._each(lambda worker: [])

    def registered(self, *taskinfoitems: str) -> Any:
        """Return the names of the tasks of this process, for each worker."""
        names = sorted(each.name for each in registry.each() if isinstance(each, CeleryTask))
        return self._each(lambda worker: names)

    registered_tasks = registered

    def active_queues(self) -> Any:
        """Return the channels of each worker; an empty list: all channels."""
        return self._each(lambda worker: [{"name": each} for each in worker.channels or ()])

    def stats(self) -> Any:
        """Return the process id of each worker, its age in seconds, and its number of threads."""
        return self._each(
            lambda worker: {
                "pid": worker.pid,
                "uptime": int((worker.last_seen - worker.started_at).total_seconds()),
                "pool": {"max-concurrency": worker.info.get("threads")},
            }
        )

    def _each(self, tell: Callable[[Any], Any]) -> Any:
        rows = apps.get_model("pgqueue", "Worker").objects.using(settings().database)
        alive = {f"celery@{each}": each for each in rows.alive(settings().lease)}
        asked = alive if self._asked is None else set(self._asked) & alive.keys()
        return {name: tell(alive[name]) for name in asked} or None

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Unsupported(
            f"inspect().{name}: the admin and `manage.py pgqueue_list` show workers and messages."
        )


def _messages(**state: str) -> Any:
    rows = apps.get_model("pgqueue", "Message").objects.using(settings().database)
    return rows.filter(**state).order_by("id")[:MOST]


def _told(message: Any) -> dict[str, Any]:
    payload = message.payload if isinstance(message.payload, dict) else {}
    args, kwargs, _ = redacting.redacted_call(
        message.task, payload.get("args", []), payload.get("kwargs", {})
    )
    return {
        "id": given_id(message.metadata) or str(message.pk),
        "name": message.task,
        "type": message.task,
        "args": args,
        "kwargs": kwargs,
        "time_start": aware(message.claimed_at).timestamp() if message.claimed_at else None,
        "delivery_info": {"routing_key": message.channel, "priority": message.priority // 10},
    }
