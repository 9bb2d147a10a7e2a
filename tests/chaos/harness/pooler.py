"""A pgbouncer in front of the suite's server, in transaction mode."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial

import psycopg

from pgqueue import embedded
from tests import programs
from tests.chaos.harness.server import Server
from tests.eventually import eventually
from tests.system import free_port

CONFIGURATION = """
[databases]
chaos = host=127.0.0.1 port={target} user=postgres dbname=chaos

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 200
ignore_startup_parameters = options,extra_float_digits
server_login_retry = 0.2
admin_users = postgres
logfile = {log}
"""


class Pooler:
    """Fewer connections to the server than clients have, so that they change hands.

    Args:
        size: of its pool.
        target: the port that it leads to; 0: the server's.
    """

    def __init__(self, server: Server, *, size: int = 8, target: int = 0) -> None:
        self.port = free_port()
        self._file = server.home / "pgbouncer.ini"
        self._log = server.home / "pgbouncer.log"
        self._file.write_text(
            CONFIGURATION.format(
                target=target or server.port, port=self.port, size=size, log=self._log
            )
        )
        self._file.chmod(0o644)
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        program = programs.find("pgbouncer", package="pgbouncer")
        self._popen = subprocess.Popen(
            [program, "-q", self._file],
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=partial(embedded._die_with, os.getpid()),
            **embedded._server_user(),
        )
        eventually(self._answers, what="pgbouncer starts")

    def _answers(self) -> bool:
        assert self._popen is not None and self._popen.poll() is None, self.log()
        try:
            psycopg.connect(
                host="127.0.0.1", port=self.port, user="postgres", dbname="chaos"
            ).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kill it."""
        if self._popen is not None:
            self._popen.send_signal(signal.SIGKILL)
            self._popen.wait()

    def log(self) -> str:
        """Return what it said."""
        return self._log.read_text() if self._log.exists() else ""
