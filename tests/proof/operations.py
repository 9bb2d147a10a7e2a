"""Write down what this process does, as `checker.account` describes it.

Each process has a file of its own in the folder PROOF_LOG. A line is one write at the file's end,
so a process that is killed loses at most its last line.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any


class OperationLog:
    """The file of one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pid = 0
        self._process = ""
        self._folder = ""
        self._file = -1
        self._numbers = count(1)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line."""
        os.write(self._open(), json.dumps(line, default=str).encode() + b"\n")

    def name(self) -> str:
        """Return a name for an operation that no other one has."""
        self._open()
        return f"{Path(sys.argv[0]).stem}-{self._process}:{next(self._numbers)}"

    def _open(self) -> int:
        with self._lock:
            # A forked child writes a file of its own.
            if (self._pid, self._folder) != (os.getpid(), os.environ["PROOF_LOG"]):
                if self._pid == os.getpid():
                    os.close(self._file)
                self._pid, self._folder = os.getpid(), os.environ["PROOF_LOG"]
                # Within hours the system gives a process the id of an earlier one.
                self._process = f"{self._pid}-{time.time_ns()}"
                file = Path(self._folder) / f"{self._process}.jsonl"
                self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                self._numbers = count(1)
            return self._file


LOG = OperationLog()


@dataclass
class Written:
    """An operation that has been invoked.

    Attributes:
        is_committing: an error from now on tells nothing about the transaction.
    """

    do: str
    id: str = field(default_factory=LOG.name)
    is_committing: bool = False

    def say(self, kind: str, **value: Any) -> None:
        """Write a line of it."""
        LOG.write(
            {"op": self.id, "kind": kind, "do": self.do, "at": now(), "wall": time.time(), **value}
        )


def now() -> float:
    """Return the seconds since the boot of the machine.

    No library that sets clocks changes this clock, and it is the same for all processes.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def invoked(do: str, **value: Any) -> Written:
    """Write the invocation of an operation."""
    operation = Written(do)
    operation.say("invoke", **value)
    return operation
