"""What the operating system tells: processes and ports."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def children(parent: int) -> list[int]:
    """Return the pids of a process's children."""
    pids = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]
    return [pid for pid in pids if _stat(pid)[1:2] == [str(parent)]]


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that waits to be buried does not."""
    return _stat(pid)[:1] not in ([], ["Z"], ["X"])


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its ended children, in seconds; 0: it is gone."""
    ticks = map(int, _stat(pid)[11:15])
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def parent(pid: int) -> int:
    """Return the pid of a process's parent; 0: the process is gone."""
    return int((_stat(pid)[1:2] or ["0"])[0])


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    return number in _signals(pid, "SigCgt")


def blocks(pid: int, number: int) -> bool:
    """Whether a process lets a signal wait, and with it what it starts."""
    return number in _signals(pid, "SigBlk")


def _signals(pid: int, kind: str) -> set[int]:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return set()
    (found,) = re.findall(rf"^{kind}:\s*(\w+)", status, re.MULTILINE)
    return {number for number in range(1, 65) if int(found, 16) >> (number - 1) & 1}


def _stat(pid: int) -> list[str]:
    """Return a process's state, its parent, and more; nothing where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
