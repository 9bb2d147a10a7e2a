"""A module of the project that nothing imports but the names of what it declares."""

from __future__ import annotations

from pgqueue import backoff, task


@backoff
def at_once(error: BaseException, result: object) -> float:
    return 0


@task
def twice(number: int) -> int:
    return 2 * number
