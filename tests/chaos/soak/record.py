"""What happened, as it happens: a file of JSON lines that is whole whenever the run ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self


class Record:
    """Writes lines of a `kind`, each `at` so many seconds from the start."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("w", buffering=1)
        self._began = time.monotonic()
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def start(self) -> None:
        """Count time from here."""
        self._began = time.monotonic()

    @property
    def clock(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def write(self, kind: str, *, at: float | None = None, **what: Any) -> None:
        """Add a line."""
        line = {"kind": kind, "at": round(self.clock if at is None else at, 2), **what}
        with self._writing:
            self._file.write(json.dumps(line) + "\n")

    @contextmanager
    def lasting(self, kind: str, **what: Any) -> Iterator[None]:
        """Add a line for the block, with the seconds it took: `lasted`."""
        at = self.clock
        try:
            yield
        finally:
            self.write(kind, at=at, **what, lasted=round(self.clock - at, 2))


def read(file: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the lines by their kind, each in the order of time."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for line in sorted(map(json.loads, file.read_text().splitlines()), key=lambda it: it["at"]):
        lines.setdefault(line["kind"], []).append(line)
    return lines
