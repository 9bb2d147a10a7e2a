"""Fork processes that have Django, psycopg and most of pgqueue imported already.

`tests/starting.py` runs this program and sends one request for each process. The server reads no
settings, sets up no Django, opens no connection and starts no thread: it only imports. Each child
evaluates its own settings in its own environment, as a new interpreter would. It ends as an
interpreter ends, too: hooks of `atexit` run, and an error is printed.

multiprocessing's forkserver is not used: its children end by `os._exit`, they share a resource
tracker, and a worker would be a process of multiprocessing there.

The tests' process becomes the parent of each child, so that it can wait for it. The server forks
an intermediate process, which forks the child and exits. The kernel then gives the child to the
next subreaper, which the tests' process is for this moment.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

IMPORTED = [
    "cronsim",
    "environ",
    "psycopg",
    "django.contrib.auth.checks",
    "django.contrib.auth.hashers",
    "django.contrib.auth.password_validation",
    "django.contrib.auth.signals",
    "django.core.management",
    "django.core.serializers.json",
    "django.db.backends.postgresql.base",
    "django.db.migrations.loader",
    "django.template.backends.django",
    "django.template.defaulttags",
    "django.template.loader_tags",
    "django.views.debug",
    "pgqueue.database_router",
    "pgqueue.duties.service",
    "pgqueue.events.acting",
    "pgqueue.events.groups",
    "pgqueue.events.subscribing",
    "pgqueue.management.databases",
    "pgqueue.management.port",
    "pgqueue.options.policies",
    "pgqueue.replication.feed",
    "pgqueue.tasks",
    "pgqueue.worker.atomic",
    "pgqueue.worker.cancelling",
    "pgqueue.worker.child",
    "pgqueue.worker.deadline",
    "pgqueue.worker.fetcher",
    "pgqueue.worker.main_session",
    "pgqueue.worker.migrations",
    "pgqueue.worker.process",
    "pgqueue.worker.quarantine",
    "pgqueue.worker.rescuer",
    "pgqueue.worker.settler",
    "pgqueue.worker.stopping",
    "pgqueue.worker.timeouts",
    "pgqueue.worker.unknown_channels",
]
"""Modules whose import needs no settings. An error in one of them ends the server."""


def prctl(option: int, value: int) -> None:
    """Set an attribute of this process. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl")


def serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork a process for each request.

    Returns:
        In a child its request; in the server None, when the tests' process has ended.
    """
    for name in IMPORTED:
        importlib.import_module(name)
    _check()
    # Collections in children would write to, and so copy, the pages that all share.
    gc.collect()
    gc.freeze()
    while True:
        message, streams, _, _ = socket.recv_fds(control, 1 << 20, 3)
        if not message:
            return None
        request = json.loads(message)
        if _fork(request["parent"]):
            _become(request, streams)
            control.send(b"%d" % os.getpid())
            control.detach()
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            return dict(request)
        for each in streams:
            os.close(each)


def _check() -> None:
    from django.conf import settings

    if settings.configured or threading.active_count() > 1:
        raise RuntimeError("An import has read the settings, or has started a thread.")


def _fork(parent: int) -> bool:
    """Fork a child of the process `parent`; return whether this is the child."""
    if middle := os.fork():
        if os.waitpid(middle, 0)[1]:
            raise OSError("No process could be forked.")
        return False
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == middle:
        time.sleep(0.0005)
    # Now the kernel kills the child when the tests' process ends.
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    return True


def _become(request: dict[str, Any], streams: list[int]) -> None:
    """Take the streams, the process group and the environment of the request."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    if request["group"] is not None:
        os.setpgid(0, request["group"])
    signal.signal(signal.SIGINT, _interrupt)
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    importlib.invalidate_caches()


def run(arguments: list[str]) -> None:
    """Run a program as `python arguments…` does: a file, or -m and a module."""
    if arguments[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        file = os.path.abspath(arguments[0])
        sys.path[0] = os.path.dirname(file)
        sys.argv = arguments
        runpy.run_path(file, run_name="__main__")


_interrupt = signal.getsignal(signal.SIGINT)
"""The handler that Python has set at its start: none where the tests' process ignores SIGINT."""

if __name__ == "__main__":
    # A Ctrl-C in the terminal is for the tests' process, whose end is noticed.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.path[0] = str(ROOT)
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        run(asked["arguments"])
