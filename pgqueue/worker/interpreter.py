"""Tune the Python interpreter for a process that only runs tasks."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.001
"""Seconds for which a thread may keep the interpreter while others wait. Python's default is five
times as much, and the fetcher and the settler wait several times for each statement."""
YOUNG = 10_000
"""The number of new objects after which the garbage collector searches for cycles. A worker holds
thousands of messages without cycles. Python's default is 700, which costs a tenth of a small
task."""


def set_up() -> None:
    """Apply the settings after all imports; more generous settings of the project stay."""
    sys.setswitchinterval(min(SWITCH_INTERVAL, sys.getswitchinterval()))
    # Objects that exist now live until the process ends.
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:  # 0: never
        gc.set_threshold(max(young, YOUNG), *older)
