"""How Python is set up in a process that does nothing but run tasks."""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.001
"""Seconds that a thread may keep the interpreter while others wait for it: by default five times
that, and whoever claims or settles waits several times for each statement."""
YOUNG = 10_000
"""Objects more than before until those are looked through for cycles. A worker holds some thousand
messages that come and go, and none is part of a cycle: by default they are looked through each
time 700 more have come than gone, which is a tenth of what a small task costs."""


def set_up() -> None:
    """Do it, once all is imported. What a project has set more generously stays."""
    sys.setswitchinterval(min(SWITCH_INTERVAL, sys.getswitchinterval()))
    # What is there by now is there for good.
    gc.collect()
    gc.freeze()
    young, *older = gc.get_threshold()
    if young:  # 0: never
        gc.set_threshold(max(young, YOUNG), *older)
