from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import connections

from testproject.shop.demo import CHANNEL

LEASE = timedelta(seconds=5)
GRACE = timedelta(seconds=10)
BOUND_TO_PARENT = Path(__file__).with_name("bound_to_parent.py")


class WorkerFailed(Exception):
    """A worker ended by itself, or not as it was asked to."""


class Workers:
    """Runs one worker at a time, in a process of its own, as `manage.py runworker` does.

    None outlives the block, nor this process, however that ends.
    """

    def __init__(
        self, mail_host: str, mail_port: int, *, model_url: str = "", verbosity: int
    ) -> None:
        self._command = [
            *[sys.executable, str(BOUND_TO_PARENT), str(os.getpid())],
            *[str(Path(settings.BASE_DIR) / "manage.py"), "runworker"],
            *["--channel", CHANNEL, "--grace", str(GRACE.total_seconds())],
            *["--verbosity", str(verbosity)],
        ]
        self._environment = {
            **os.environ,
            "DATABASE_URL": database_url(connections["default"].settings_dict),
            "EMAIL_HOST": mail_host,
            "EMAIL_PORT": str(mail_port),
            "MODEL_URL": model_url,
            "PGQUEUE_LEASE": str(LEASE.total_seconds()),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> int:
        """Start a worker, and return its process id."""
        # Its log goes to stderr; stdout is for the ledger alone.
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        return self._process.pid

    def check(self) -> None:
        """Make sure that the worker lives.

        Raises:
            WorkerFailed: it doesn't.
        """
        if self._process and (status := self._process.poll()) is not None:
            raise WorkerFailed(f"The worker ended by itself, with status {status}.")

    def kill(self) -> None:
        """End the worker, if there is one, with SIGKILL: it can't say goodbye."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask the worker to end, and wait until it has.

        Raises:
            WorkerFailed: it did with an error, or did not.
        """
        if not self._process:
            return
        self._process.terminate()
        try:
            status = self._process.wait(2 * GRACE.total_seconds())
        except subprocess.TimeoutExpired as error:
            raise WorkerFailed("The worker was asked to end, and does not.") from error
        self._process = None
        # Asked before it was there to hear it, it ends by the signal.
        if status not in (0, -signal.SIGTERM):
            raise WorkerFailed(f"The worker was asked to end, and did with status {status}.")


def database_url(database: dict[str, Any]) -> str:
    """Return where Django finds `database` now: under test, elsewhere than DATABASE_URL says."""
    embedded = "postgresql://{USER}@:{PORT}/{HOST}/".format_map(database)
    url, mark, options = os.environ.get("DATABASE_URL", embedded).partition("?")
    return f"{url.rpartition('/')[0]}/{quote(database['NAME'], safe='')}{mark}{options}"
