"""The stacks that a process writes on SIGUSR1, beside threads that run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.eventually import eventually

pytestmark = pytest.mark.slow

BUSY = """
import threading, time
from pgqueue.worker.stopping import asked_for_stacks

def called(depth):
    return depth and called(depth - 1)

def busy():
    while True:
        called(50)

with asked_for_stacks():
    for _ in range(3):
        threading.Thread(target=busy, daemon=True).start()
    print("ready", flush=True)
    time.sleep(60)
"""


def test_they_may_be_asked_for_at_any_moment(tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    with (
        stderr.open("wb") as written,
        subprocess.Popen(
            [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=written
        ) as process,
    ):
        try:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"

            until = time.monotonic() + 5
            while time.monotonic() < until:
                os.kill(process.pid, signal.SIGUSR1)
                assert process.poll() is None

            eventually(
                lambda: re.search(rb'Thread \w+ .*:\n  File ".*in called', stderr.read_bytes())
            )
            assert process.poll() is None
        finally:
            process.kill()

    stacks = stderr.read_text().split("\n\n")[0]
    assert re.search(
        r'Thread \w+ \(most recent call first\):\n  File "<string>", line \d+ in ', stacks
    )
