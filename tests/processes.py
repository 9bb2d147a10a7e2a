"""Real workers, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import Any
from urllib.parse import quote

from django.db import connection, connections

from pgqueue.models import Worker
from tests import starting as programs
from tests.eventually import eventually
from tests.starting import ROOT as ROOT


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


def environment(**more: str) -> dict[str, str]:
    """Return the environment of another process on the tests' settings and database."""
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.worker_settings",
        "DATABASE_URL": database_url(),
        **more,
    }


def manage(*arguments: str, forked: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `manage.py` to its end, on the tests' settings and database."""
    return programs.run(
        ["manage.py", *arguments],
        forked=forked,
        env=environment(**more),
        capture_output=True,
        text=True,
        timeout=60,
    )


class Process:
    """A `manage.py runworker`, in a group of its own, and what it has to say.

    Args:
        forked: whether `tests/starting.py` may fork it; False: a new interpreter runs it.
    """

    def __init__(
        self,
        *arguments: str,
        database: str | None = None,
        project: str = "tests.worker_settings",
        forked: bool = True,
        **settings: Any,
    ) -> None:
        self._before = set(Worker.objects.values_list("pk", flat=True))
        # No pipe: a worker would stop at a pipe that is full.
        self._log = TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._logged = ""
        self.popen = programs.Popen(
            ["manage.py", "runworker", *arguments],
            forked=forked,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": project,
                "DATABASE_URL": database or database_url(),
                **{f"PGQUEUE_{name.upper()}": str(value) for name, value in settings.items()},
            },
            stderr=self._log,
            stdout=subprocess.DEVNULL,
            process_group=0,
        )

    @property
    def log(self) -> str:
        """The log until now."""
        if self._log.closed:
            return self._logged
        # Not by seek(), which would move the place at which the worker writes.
        number = self._log.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(errors="replace")

    def wait_until_it_serves(self) -> None:
        # Itself, or one of its processes.
        eventually(
            lambda: Worker.objects.exclude(pk__in=self._before).exists(),
            within=20,
            what="the worker has not registered",
        )

    def wait_until_it_idles(self) -> None:
        eventually(
            lambda: Worker.objects.filter(pid=self.popen.pid, notify_until__isnull=False).exists(),
            what="the worker does not wait to be told",
        )

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def signal_group(self, number: signal.Signals) -> None:
        """As systemd does, or a terminal."""
        os.killpg(self.popen.pid, number)

    def exit_status(self, within: float = 15) -> int:
        return self.popen.wait(within)

    def close(self) -> None:
        """End it, and its processes, if it runs; what it has logged stays."""
        if self.popen.poll() is None:
            # Without their supervisor, its processes would claim messages of the next test.
            self.signal_group(signal.SIGKILL)
            self.popen.wait(15)
        self._logged = self.log
        self._log.close()


@contextmanager
def starting(*arguments: str, **settings: Any) -> Iterator[Process]:
    """A worker that starts, and is gone at the end of the block, whatever happens in it."""
    process = Process(*arguments, **settings)
    try:
        yield process
    finally:
        process.close()


@contextmanager
def worker(*arguments: str, **settings: Any) -> Iterator[Process]:
    """A worker that serves, and is gone at the end of the block."""
    with starting(*arguments, **settings) as process:
        process.wait_until_it_serves()
        yield process


def own_connections() -> dict[str, int]:
    """The workers' own connections: what each is for, and its process in the server."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT split_part(application_name, ' ', 2), pid FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE 'pgqueue %%' "
            "AND split_part(application_name, ' ', 2) <> ALL (%s)",
            # Those of the tests themselves, and of long duties, which come and go.
            [["broom", "test", "partitions", "purge"]],
        )
        return dict(cursor.fetchall())
