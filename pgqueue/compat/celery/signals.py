"""Celery's signals, sent for pgqueue's events; signals without an event refuse receivers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from pgqueue import signals
from pgqueue.compat.celery import absent, current
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.utils.nodenames import default_nodename
from pgqueue.database.savepoints import GuardedSignal


class Signal:
    """A signal. Receivers get `sender` and the values as keywords; their errors are logged."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Without a cache: its keys would be weak references to senders. Some senders are names, and
        # a str allows no weak reference.
        self._signal = GuardedSignal()

    def __repr__(self) -> str:
        return f"<Signal: {self.name}>"

    @property
    def receivers(self) -> list[Any]:
        """The connected receivers."""
        return self._signal.receivers

    def connect(
        self,
        receiver: Callable[..., Any] | None = None,
        *,
        sender: Any = None,
        weak: bool = True,
        dispatch_uid: Any = None,
        retry: bool = False,
    ) -> Any:
        """Connect a function: by a call, as `@signal.connect` or as `@signal.connect(sender=…)`.

        Args:
            sender: the task; for before_task_publish and after_task_publish, the task's name.
            retry: without effect: the error of a receiver is logged.
        """

        def connect(receiver: Callable[..., Any]) -> Callable[..., Any]:
            self._signal.connect(
                receiver, sender=_known(sender), weak=weak, dispatch_uid=dispatch_uid
            )
            return receiver

        return connect if receiver is None else connect(receiver)

    def disconnect(
        self, receiver: Any = None, sender: Any = None, dispatch_uid: Any = None
    ) -> bool:
        """Disconnect a function; return whether it was connected."""
        return self._signal.disconnect(receiver, sender=_known(sender), dispatch_uid=dispatch_uid)

    def send(self, sender: Any, **named: Any) -> list[tuple[Any, Any]]:
        """Call the receivers, each in a savepoint if a transaction is open."""
        if not self._signal.receivers:
            return []
        return self._signal.send_robust(_known(sender), **named)


class Unsent(Signal):
    """A signal that accepts receivers, and is never sent: its event does not exist here."""

    def __init__(self, name: str, instead: str) -> None:
        super().__init__(name)
        self.instead = instead


class Absent:
    """A signal without an equivalent event: it refuses receivers."""

    def __init__(self, name: str, instead: str) -> None:
        self.name = name
        self.instead = instead

    def connect(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported(f"The signal {self.name} is never sent here: {self.instead}.")

    def disconnect(self, *args: Any, **kwargs: Any) -> bool:
        """Return False: no function was connected."""
        return False


def _known(sender: Any) -> Any:
    # Django compares senders by identity, so equal names must be one object.
    return sys.intern(str(sender)) if isinstance(sender, str) else sender


before_task_publish = Signal("before_task_publish")
after_task_publish = Signal("after_task_publish")
task_prerun = Signal("task_prerun")
task_postrun = Signal("task_postrun")
task_success = Signal("task_success")
task_failure = Signal("task_failure")
task_retry = Signal("task_retry")
task_revoked = Signal("task_revoked")
celeryd_init = Signal("celeryd_init")
celeryd_after_setup = Signal("celeryd_after_setup")
worker_init = Signal("worker_init")
worker_process_init = Signal("worker_process_init")
worker_ready = Signal("worker_ready")
worker_shutting_down = Signal("worker_shutting_down")
worker_process_shutdown = Signal("worker_process_shutdown")
worker_shutdown = Signal("worker_shutdown")

_BEAT = "there is no beat: workers enqueue scheduled tasks, and worker_ready announces a worker"
_EVENTLET = "there is no eventlet: `runworker --async` runs coroutine functions"
_COMMAND = "there is no command `celery`; worker_init is sent as a worker starts"

setup_logging = Unsent("setup_logging", absent.LOGGING)
after_setup_logger = Unsent("after_setup_logger", absent.LOGGING)
after_setup_task_logger = Unsent("after_setup_task_logger", absent.LOGGING)
beat_init = Absent("beat_init", _BEAT)
beat_embedded_init = Absent("beat_embedded_init", _BEAT)
user_preload_options = Absent("user_preload_options", _COMMAND)
import_modules = Absent("import_modules", "tasks are imported when they are needed")
heartbeat_sent = Absent("heartbeat_sent", "use --liveness-file, or `manage.py pgqueue_health`")
task_sent = Absent("task_sent", "use after_task_publish")
task_received = Absent("task_received", "use task_prerun: a message is claimed as it begins")
task_rejected = Absent("task_rejected", "pgqueue.signals.task_unknown announces unknown tasks")
task_unknown = Absent("task_unknown", "use pgqueue.signals.task_unknown")
task_internal_error = Absent("task_internal_error", "use pgqueue.signals.service_failed")
worker_before_create_process = Absent("worker_before_create_process", "use worker_process_init")
eventlet_pool_started = Absent("eventlet_pool_started", _EVENTLET)
eventlet_pool_preshutdown = Absent("eventlet_pool_preshutdown", _EVENTLET)
eventlet_pool_postshutdown = Absent("eventlet_pool_postshutdown", _EVENTLET)
eventlet_pool_apply = Absent("eventlet_pool_apply", _EVENTLET)


class Node:
    """A worker, as the sender of its signals."""

    def __init__(self) -> None:
        self.hostname = default_nodename()

    def __repr__(self) -> str:
        return f"<Node: {self.hostname}>"

    @property
    def app(self) -> Any:
        """The current app."""
        return current.app()


def _starting(sender: Any, **kwargs: Any) -> None:
    node = Node()
    if celeryd_init.receivers or celeryd_after_setup.receivers:
        told = {"instance": node, "conf": node.app.conf, "options": {}}
        celeryd_init.send(node.hostname, **told)
        celeryd_after_setup.send(node.hostname, **told)
    worker_init.send(node)
    worker_process_init.send(default_nodename())


def _started(sender: Any, **kwargs: Any) -> None:
    worker_ready.send(Node())


def _stopping(sender: Any, requests: int, **kwargs: Any) -> None:
    how = "Warm" if requests < 2 else "Cold"
    worker_shutting_down.send(default_nodename(), sig="SIGTERM", how=how, exitcode=0)


def _stopped(sender: Any, **kwargs: Any) -> None:
    worker_process_shutdown.send(default_nodename(), pid=os.getpid(), exitcode=0)
    worker_shutdown.send(Node())


signals.worker_starting.connect(_starting)
signals.worker_started.connect(_started)
signals.worker_stopping.connect(_stopping)
signals.worker_stopped.connect(_stopped)
