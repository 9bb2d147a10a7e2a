"""A PostgreSQL that the suite owns, to be stopped, killed, copied and promoted."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from pgqueue import embedded
from tests.eventually import eventually
from tests.system import children, free_port, is_alive

VERSION = int(os.environ.get("CHAOS_POSTGRES", 18))
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "64MB",
    "max_connections": "100",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %a ",
    # A standby follows at once, and a test's own statement may hang for no longer than this.
    "wal_receiver_status_interval": "1s",
    "autovacuum_naptime": "5s",
    # The WAL may be followed.
    "wal_level": "logical",
}
STOPS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT, "killed": signal.SIGKILL}


class Server:
    """A server on a data directory, on loopback and on a socket.

    Args:
        home: a folder that the server's user may write to; its data are in `data`.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data = home / "data"
        self.port = free_port()
        self.settings = dict(SETTINGS)
        self.wrapper: Sequence[str] = ()
        self._popen: subprocess.Popen[bytes] | None = None

    def make_cluster(self) -> None:
        """Make the data directory."""
        options = ["-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        run("initdb", *options, "-D", self.data)

    def copy_to(self, home: Path) -> Server:
        """Return another server on a copy of the data; this one must be stopped."""
        subprocess.run(["/bin/cp", "-a", "--reflink=auto", self.data, home / "data"], check=True)
        return Server(home)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._popen is not None and self._popen.poll() is None

    @property
    def pid(self) -> int:
        """Its first process's number; 0: it was never started."""
        return self._popen.pid if self._popen else 0

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        self.begin_to_start()
        eventually(self._answers, within=60, what=f"the server starts: {self.log()[-2000:]}")

    def begin_to_start(self) -> None:
        """Start it, and wait for nothing."""
        places = {"port": str(self.port), "unix_socket_directories": str(self.home)}
        settings = [f"--{name}={value}" for name, value in {**self.settings, **places}.items()]
        # We know that it is not alive; the pid in there may be another process's by now.
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        with (self.home / "server.log").open("ab") as log:
            self._popen = subprocess.Popen(
                [*self.wrapper, programs() / "postgres", "-D", self.data, *settings],
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdout=log,
                stderr=log,
                preexec_fn=partial(embedded._die_with, os.getpid()),
                **embedded._server_user(),
            )

    def _answers(self) -> bool:
        assert self.is_alive, self.log()[-2000:]
        try:
            with self.connect(dbname="postgres"):
                return True
        except psycopg.OperationalError:
            return False

    def stop(self, how: str = "fast") -> None:
        """Stop it: fast, immediate, or killed (all of its processes)."""
        if self._popen is None or not self.is_alive:
            return
        family = children(self._popen.pid) if how == "killed" else []
        self._popen.send_signal(STOPS[how])
        for pid in family:
            with suppress(ProcessLookupError):  # it has ended with its parent
                os.kill(pid, signal.SIGKILL)
        self._popen.wait(60)
        eventually(lambda: not any(map(is_alive, family)), what="its processes are gone")

    def promote(self) -> None:
        """Make a primary of a standby."""
        with self.connect(dbname="postgres") as connection:
            connection.execute("SELECT pg_promote()")

    def connect(self, **parameters: Any) -> psycopg.Connection[Any]:
        """Open a connection to it, past all proxies, in autocommit."""
        given = {"dbname": "chaos", "application_name": "suite", "connect_timeout": 5}
        return psycopg.connect(
            host=str(self.home), port=self.port, user="postgres", autocommit=True,
            **{**given, **parameters},
        )  # fmt: skip

    def log(self) -> str:
        """Return what it said."""
        log = self.home / "server.log"
        return log.read_text(errors="replace") if log.exists() else ""


def url(port: int, *, host: str = "127.0.0.1", dbname: str = "chaos") -> str:
    """Return the DATABASE_URL of what listens on this port."""
    return f"postgresql://postgres@{host}:{port}/{dbname}?sslmode=disable&gssencmode=disable"


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, which the server's user can run."""
    return embedded._runnable(embedded._programs(VERSION))


def run(program: str, *arguments: object, **options: Any) -> None:
    """Run a program of PostgreSQL's as the server's user."""
    subprocess.run(
        [programs() / program, *map(str, arguments)],
        check=True,
        capture_output=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        **embedded._server_user(),
        **options,
    )


@contextmanager
def home(name: str) -> Iterator[Path]:
    """Make a folder that the server's user may write to; remove it at the end."""
    room = embedded.ROOM / f"pgqueue-{os.geteuid()}"
    embedded._make_private(room)
    # Short: a socket's path ends at 107 bytes.
    folder = room / f"chaos-{os.getpid()}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    embedded._make_for_server(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def nap(seconds: float) -> None:
    """Let a fault last: the only thing here that is waited for by the clock."""
    time.sleep(seconds)
