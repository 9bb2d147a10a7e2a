"""The task of the neutral benchmark, and the counts of this process."""

from __future__ import annotations

import asyncio

from pgqueue import task

from .protocol import Counts, Options

options = Options.given()
counts = Counts()
CHANNEL = "bench"


@task(channel=CHANNEL)
async def work(enqueued_at: float, padding: str) -> None:
    """Work for as long as the harness says."""
    counts.note_started(enqueued_at)
    if options.work_ms:
        await asyncio.sleep(options.work_ms / 1000)
    counts.note_completed()
