"""Become another Python program that the kernel kills when its parent dies.

Run as `python bound_to_parent.py PARENT PROGRAM …`. Popen's preexec_fn could do the same, but is
not safe in a parent that has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, program: list[str]) -> None:
    """Tie this process to `parent`, then become `program`."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # It may have died before.
    if os.getppid() == parent:
        os.execv(sys.executable, [sys.executable, *program])  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
