"""Tasks that begin, say so, and end when the test lets them."""

from __future__ import annotations

import time
from pathlib import Path

from pgqueue import BatchCall, TaskContext, task
from tests.eventually import eventually

WITHIN = 30.0
"""Seconds: longer than a test needs to open a gate."""


def begin(folder: str, context: TaskContext) -> None:
    """Say that a run has begun, and return when the test lets it end."""
    run = f"{context.id} {context.attempt}"
    Path(folder, f"{run} began").touch()
    gate = Path(folder, f"{run} may end")
    eventually(lambda: gate.exists() or Path(folder, "all may end").exists(), within=WITHIN)
    time.sleep(0.05)  # so that two runs at once are seen


@task(takes_context=True, max_attempts=1)
def gated(context: TaskContext, folder: str) -> None:
    begin(folder, context)


@task(takes_context=True, max_attempts=1, atomic=True)
def gated_atomically(context: TaskContext, folder: str) -> None:
    begin(folder, context)


@task(batch=2, batch_wait=0.05, max_attempts=1)
def gated_in_batches(calls: list[BatchCall[str]]) -> None:
    for call in calls:
        begin(call.args[0], call.context)
