"""Tasks that the first version enqueued, and that today's worker has to run."""

from __future__ import annotations

import os
import signal
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from pgqueue import task


@task
def add(x: int, y: int) -> int:
    return x + y


@task(atomic=True)
def typed(day: date, amount: Decimal, *more: Any) -> list[Any]:
    return [day, amount, *more]


@task(max_attempts=1)
def fail(while_there_is: str) -> str:
    if Path(while_there_is).exists():
        raise ValueError("It fails in the first version.")
    return "replayed"


@task(backoff=[3600])
def fail_once(while_there_is: str) -> str:
    return str(fail.func(while_there_is))


@task(takes_context=True)
def die(context: Any) -> int:
    if context.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(context.attempt)
