"""What a figure was measured on."""

import os
import platform
import timeit
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import django
import psycopg

import pgqueue
from pgqueue import embedded
from tests.benchmarks.harness.session import ask

# Those that the docs tell users to set, and those that no user should touch.
TUNED = [name for name in embedded.SETTINGS if not name.endswith("timezone")]
SETTINGS = [*TUNED, "fsync", "synchronous_commit"]

Machine = dict[str, Any]


@cache
def machine() -> Machine:
    """Describe the machine, the versions and the server's settings, as they were at first."""
    return described(_shown)


def described(shown: Callable[[str], str]) -> Machine:
    """Return the machine, the versions and the settings of a server.

    Args:
        shown: returns a setting of the server, as text.
    """
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "million_loops_per_s": _million_loops_per_s(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "load_before": round(os.getloadavg()[0], 2),
        "postgresql": shown("server_version").split()[0],
        "python": platform.python_version(),
        "django": django.get_version(),
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "pgqueue": pgqueue.__version__,
        "settings": {name: shown(name) for name in SETTINGS},
    }


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _million_loops_per_s() -> float:
    """Return how often this Python runs an empty loop: machines of one name differ by far."""
    return round(1 / min(timeit.repeat("for _ in range(1_000_000): pass", number=1)), 1)


def _shown(setting: str) -> str:
    return str(ask(b"SELECT current_setting(%(name)s)", {"name": setting})[0])
