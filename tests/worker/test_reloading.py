"""When a worker finds that its code has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pgqueue.worker.reloading import FOREVER, Reloading


def test_several_files_that_change_at_once_are_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second one would end the grace period.
    paths = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for path in paths:
        path.write_text("")
        os.utime(path, (0, 0))
    requests: list[bool] = []
    reloading = Reloading(lambda: requests.append(True))
    monkeypatch.setattr(
        reloading._reloader,
        "snapshot_files",
        lambda: [(path, path.stat().st_mtime) for path in paths],
    )
    reloading.tick()
    assert not requests

    for number, path in enumerate(paths):
        os.utime(path, (0, time.time() + 10 + number))
    nap = reloading.tick()

    assert (len(requests), nap) == (1, FOREVER)
