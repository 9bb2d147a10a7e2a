"""Become another program, in a group of processes that lasts no longer than who started it.

Run in a session of its own as `python lifeline.py LIFELINE PROGRAM …`. The lifeline is the reading
end of a pipe; once no process holds its other end, whatever is left of the group is killed. A
signal at the parent's death would reach only the program, not the processes that it starts.
"""

import os
import signal
import sys
from contextlib import suppress


def main(lifeline: int, program: list[str]) -> None:
    """Leave a process to watch the lifeline, then become `program`."""
    group = os.getpid()
    if os.fork() == 0:
        # Twice, so that the program has no child that it knows nothing of.
        if os.fork() == 0:
            os.setsid()
            os.read(lifeline, 1)
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        os._exit(0)
    os.wait()
    os.close(lifeline)
    os.execvp(program[0], program)  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
