"""Set up a process that only runs tasks: its log and its interpreter; and measure its memory.

Django is not imported here: a new process has not set it up yet.
"""

from __future__ import annotations

import gc
import logging
import resource
import sys
from contextlib import suppress
from pathlib import Path

SWITCH_INTERVAL = 0.001
"""Seconds for which a thread may keep the interpreter while others wait. Python's default is five
times as much, and the fetcher and the settler wait several times for each statement."""
YOUNG = 10_000
"""The number of new objects after which the garbage collector searches for cycles. A worker holds
thousands of messages without cycles. Python's default is 700, which costs a tenth of a small
task."""


def configure_logging(level: int | None) -> None:
    """Log to stderr from `level` on, unless the project's LOGGING configures handlers."""
    logger = logging.getLogger("pgqueue")
    if level is None or logger.handlers or logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(level)


def tune_interpreter() -> None:
    """Tune Python for a process that only runs tasks, after all imports.

    More generous settings of the project stay.
    """
    sys.setswitchinterval(min(SWITCH_INTERVAL, sys.getswitchinterval()))
    # Objects that exist now live until the process ends.
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:  # 0: never
        gc.set_threshold(max(young, YOUNG), *older)


def memory() -> float:
    """Return the resident memory of this process, in MB of a million bytes.

    Without /proc, or if no file can be opened, return the largest size so far.
    """
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / 1e6 if sys.platform == "darwin" else most * 1024 / 1e6
