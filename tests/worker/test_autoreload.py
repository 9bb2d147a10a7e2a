"""When a worker finds that its code has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgqueue.worker.autoreload import EVERY, FOREVER, Autoreload


@pytest.fixture
def requests() -> list[bool]:
    return []


@pytest.fixture
def autoreload(requests: list[bool]) -> Autoreload:
    """Of a process that began a minute ago."""
    stop: Any = SimpleNamespace(add=lambda: requests.append(True))
    return Autoreload(stop, since=time.time() - 60)


@pytest.fixture
def imported(
    tmp_path: Path, autoreload: Autoreload, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """A function that makes a file which was imported, and is old."""
    paths: list[Path] = []
    monkeypatch.setattr(
        autoreload._reloader,
        "snapshot_files",
        lambda: [(path, path.stat().st_mtime) for path in paths],
    )

    def imported(name: str) -> Path:
        path = tmp_path / name
        path.touch()
        save(path, -3600)
        paths.append(path)
        return path

    return imported


def save(path: Path, seconds: float) -> None:
    """Have it changed so many seconds from now."""
    os.utime(path, (0, time.time() + seconds))


def test_several_files_that_change_at_once_are_one_request(
    autoreload: Autoreload, requests: list[bool], imported: Callable[[str], Path]
) -> None:
    # A second one would end the grace period.
    paths = [imported(name) for name in ("a.py", "b.py", "c.py")]
    autoreload.tick()
    assert not requests

    for number, path in enumerate(paths):
        save(path, -number)
    nap = autoreload.tick()

    assert (len(requests), nap) == (1, FOREVER)


def test_what_was_saved_before_the_first_look_may_have_been_read_before(
    autoreload: Autoreload, requests: list[bool], imported: Callable[[str], Path]
) -> None:
    save(imported("a.py"), -30)

    autoreload.tick()

    assert len(requests) == 1


def test_what_was_saved_before_the_process_began_is_what_was_read(
    autoreload: Autoreload, requests: list[bool], imported: Callable[[str], Path]
) -> None:
    save(imported("a.py"), -90)

    nap = autoreload.tick()

    assert (requests, nap) == ([], EVERY)


def test_a_time_to_come_counts_only_as_a_change(
    autoreload: Autoreload, requests: list[bool], imported: Callable[[str], Path]
) -> None:
    # By another machine's clock: each process in place of this one would find it so.
    path = imported("a.py")
    save(path, 3600)
    autoreload.tick()
    before = len(requests)

    save(path, 3700)
    autoreload.tick()

    assert (before, len(requests)) == (0, 1)
