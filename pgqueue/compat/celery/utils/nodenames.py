"""Names of workers and producers."""

import os
import socket


def default_nodename(hostname: str | None = None) -> str:
    """Return the name of a worker on this host."""
    return f"celery@{hostname or gethostname()}"


def anon_nodename(hostname: str | None = None, prefix: str = "gen") -> str:
    """Return the name of a process that is no worker."""
    return f"{prefix}{os.getpid()}@{hostname or gethostname()}"


def gethostname() -> str:
    """Return the name of this host."""
    return socket.gethostname()
