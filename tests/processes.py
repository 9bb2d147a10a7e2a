"""Real workers, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connections

from pgqueue.models import Worker
from tests.eventually import eventually

ROOT = Path(__file__).parent.parent


def database_url(alias: str = "default") -> str:
    """Return the URL of a test database, for another process's DATABASE_URL."""
    settings = connections[alias].settings_dict
    login = quote(settings["USER"] or "", safe="")
    if settings["PASSWORD"]:
        login += ":" + quote(settings["PASSWORD"], safe="")
    port = f":{settings['PORT']}" if settings["PORT"] else ""
    host = settings["HOST"] or ""
    if host.startswith("/"):
        # As django-environ has it, which would leave libpq's %2F as it is.
        return f"postgresql://{login}@{port}/{host}/{settings['NAME']}"
    return f"postgresql://{login}@{host}{port}/{settings['NAME']}"


class Process:
    """A `manage.py runworker`, and what it has to say."""

    def __init__(self, *arguments: str, **settings: Any) -> None:
        self._before = set(Worker.objects.values_list("pk", flat=True))
        self.popen = subprocess.Popen(
            [sys.executable, "manage.py", "runworker", *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "DATABASE_URL": database_url(),
                **{f"PGQUEUE_{name.upper()}": str(value) for name, value in settings.items()},
            },
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        self.log = ""

    def wait_until_it_serves(self) -> None:
        eventually(
            lambda: Worker.objects.exclude(pk__in=self._before).filter(pid=self.popen.pid).exists(),
            what="the worker has not registered",
        )

    def wait_until_it_idles(self) -> None:
        eventually(
            lambda: Worker.objects.filter(pid=self.popen.pid, notify_until__isnull=False).exists(),
            what="the worker does not wait to be told",
        )

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def exit_status(self, within: float = 15) -> int:
        _, said = self.popen.communicate(timeout=within)
        self.log += said or ""
        return self.popen.returncode


@contextmanager
def worker(*arguments: str, **settings: Any) -> Iterator[Process]:
    """A worker that serves, and is gone at the end of the block, whatever happens in it."""
    process = Process(*arguments, **settings)
    try:
        process.wait_until_it_serves()
        yield process
    finally:
        if process.popen.poll() is None:
            process.popen.kill()
            process.exit_status()
        elif process.popen.stderr and not process.popen.stderr.closed:
            process.exit_status()
