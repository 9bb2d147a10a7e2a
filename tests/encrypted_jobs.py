"""Tasks that ask for encryption, and what they were called with."""

from __future__ import annotations

from datetime import date
from typing import Any

from pgqueue import Discard, Retry, TaskContext, task

SECRET = "the-cellar-key-4711"
seen: list[Any] = []
"""What tasks were called with, in this process."""


@task(encrypted=True)
def keep(text: str, day: date | None = None) -> str:
    seen.append((text, day))
    return f"{text}, kept"


@task(encrypted=True, takes_context=True, aliases=["shop.gone.kept"])
def renamed(context: TaskContext, text: str) -> str:
    seen.append(text)
    context.checkpoint(text)
    return f"{text}, kept"


@task(encrypted=True)
async def keep_async(text: str) -> str:
    seen.append(text)
    return f"{text}, kept"


@task(encrypted=True, atomic=True)
def keep_atomically(text: str) -> str:
    return f"{text}, kept"


@task(encrypted=True)
def other(text: str) -> None:
    seen.append(text)


@task(encrypted=True, max_attempts=2, backoff=[0])
def fail(text: str) -> None:
    try:
        raise KeyError(text)
    except KeyError as error:
        raise ValueError(f"{text} fits nowhere") from error


@task(encrypted=True)
def discard(text: str) -> None:
    raise Discard(text)


@task(encrypted=True, takes_context=True, backoff=[0])
def go_on(context: TaskContext, text: str) -> Any:
    if context.progress is None:
        context.checkpoint({"reached": text})
        raise Retry(0)
    return context.progress


@task(encrypted=True, takes_context=True)
def come_again(context: TaskContext, text: str) -> Any:
    if context.progress is None:
        context.defer(0, progress=text)
    return context.progress


@task
def plain(text: str) -> str:
    return text


@task
def length(text: str) -> int:
    return len(text)


@task(max_attempts=1)
def quote(text: str) -> None:
    raise ValueError(f"{text} fits nowhere")
