"""Become another program, with a clock that is wrong.

Run as `python -m tests.chaos.clock SECONDS MODULE …`.
"""

from __future__ import annotations

import runpy
import sys
import time

import time_machine

if __name__ == "__main__":
    wrong_by, module = float(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    with time_machine.travel(time.time() + wrong_by, tick=True):
        runpy.run_module(module, run_name="__main__", alter_sys=True)
