"""The costs of a message: processor time of the worker and of PostgreSQL, and WAL."""

from __future__ import annotations

from pathlib import Path

from pgqueue.database.sql_files import load
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.draining import settled
from tests.benchmarks.harness.session import ask
from tests.system import children, parent, processor_seconds

SQL = load(__name__)


def costs(count: int) -> dict[str, float]:
    """Drain `count` messages that do nothing by one worker.

    The start of the worker is measured apart, and subtracted.

    Returns:
        The figures `worker_us` and `server_us`, microseconds of processor time for each message,
        and `wal_bytes` for each message. `server_us` is missing if the server is on another
        machine.
    """
    messages.empty()
    with worker.running() as running:
        running.wait_until(worker.is_idle)
        start = _of_worker(running)
    messages.store(count)
    processor_before, wal_before = _of_server()
    with worker.running() as running:
        settled(running, count)
        of_worker = _of_worker(running) - start
        processor, wal = _of_server()
    found = {"worker_us": of_worker * 1e6 / count, "wal_bytes": (wal - wal_before) / count}
    if processor:
        found["server_us"] = (processor - processor_before) * 1e6 / count
    return found


def _of_worker(running: worker.Worker) -> float:
    family = [running.process.pid, *children(running.process.pid)]
    return sum(map(processor_seconds, family))


def written() -> float:
    """Return the bytes of WAL that the server has written so far."""
    _, wal = ask(SQL["server"])
    return float(wal)


def _of_server() -> tuple[float, float]:
    """Return seconds of processor time of all server processes, 0 if unknown; and bytes of WAL."""
    backend, wal = ask(SQL["server"])
    if not _is_postgres(backend):
        return 0.0, wal
    postmaster = parent(backend)
    return sum(map(processor_seconds, [postmaster, *children(postmaster)])), wal


def _is_postgres(pid: int) -> bool:
    """Return whether a process of this machine is one of PostgreSQL."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().startswith("postgres")
    except OSError:
        return False
