"""Tasks with one list, which collect the items of several calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from pgqueue import BatchCall, DurableContext, TaskContext, task

seen: list[Any] = []
"""What tasks were called with, in this process."""


@task(
    dedupe_key="ids",
    on_conflict="collect",
    run_after=30,
    aliases=["tests.collecting_jobs.index_ids"],
)
def index(ids: list[int]) -> int:
    seen.append(ids)
    return len(ids)


@task(takes_context=True, dedupe_key="parts", on_conflict="collect")
def index_a_part(context: TaskContext, ids: list[int]) -> None:
    seen.append((ids, context.progress))
    if context.progress is None:
        context.defer(60, progress=500)


@task
def any_list(items) -> None:  # type: ignore[no-untyped-def]
    seen.append(items)


@task(takes_context=True, dedupe_key="days", on_conflict="collect")
def days(context: TaskContext, *, each: Sequence[date]) -> None:
    seen.append(each)


@task(encrypted=True, dedupe_key="texts", on_conflict="collect", redact=["texts"])
def secret(texts: list[str]) -> None:
    seen.append(texts)


@task(dedupe_key="texts", on_conflict="collect")
def plain(texts: list[str]) -> None:
    seen.append(texts)


@task(batch=10, dedupe_key="batch", on_conflict="collect")
def together(calls: list[BatchCall[list[int]]]) -> None:
    seen.append([call.args for call in calls])


@task(durable=True, dedupe_key="ids", on_conflict="collect")
def index_in_steps(run: DurableContext, ids: list[int]) -> None:
    run.sleep(3600)
    seen.append(ids)


@task
def two(a: list[int], b: int) -> None: ...


@task
def many(*ids: int) -> None: ...
