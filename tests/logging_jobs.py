"""Tasks that log, and keep their lines."""

from __future__ import annotations

import contextvars
import logging
from pathlib import Path
from typing import Any

from asgiref.sync import sync_to_async

from pgqueue import TaskContext, task
from pgqueue.durable import DurableContext
from tests.eventually import eventually

logger = logging.getLogger("tests.logging_jobs")
logger.setLevel(logging.DEBUG)


class Unspeakable:
    """An argument without a text."""

    def __str__(self) -> str:
        raise ValueError("no text")


@task(logs="INFO")
def say(*texts: str) -> None:
    for text in texts:
        logger.info(text)
    logger.debug("a debug line")


@task
def say_by_default(text: str) -> None:
    logger.info(text)


@task(logs=None)
def say_nothing(text: str) -> None:
    logger.info(text)


@task(logs="INFO", atomic=True)
def say_atomically(text: str) -> None:
    logger.info(text)


@task(logs="INFO")
async def say_async(text: str) -> None:
    logger.info("in the coroutine: %s", text)
    await sync_to_async(logger.info)("in a thread: %s", text)
    contextvars.copy_context().run(logger.info, "in a copy: %s", text)


@task(logs="INFO")
def say_much(number: int) -> None:
    for each in range(number):
        logger.info("line %s", each)


@task(logs="INFO")
def say_wildly() -> None:
    logger.info("NUL \x00, half \ud800")
    logger.info("%s and %s", "one")
    logger.info("%s", Unspeakable())
    logger.info("x" * 10_000_000)
    logging.getLogger("pgqueue.engine").error("pgqueue's own")
    logger.info("the last one")


@task(logs="INFO", max_attempts=2, backoff=[0])
def fail(context_of_error: str) -> None:
    try:
        raise ValueError(context_of_error)
    except ValueError:
        logger.exception("It failed")
    raise RuntimeError("anew")


@task(logs="INFO", redact=["card"])
def charge(card: str) -> None:
    logger.info("charged %s", card)
    try:
        raise ValueError(f"refused: {card}")
    except ValueError:
        logger.exception("Declined")


@task(logs="INFO", encrypted=True)
def whisper(secret: str) -> None:
    logger.info("it is %s", secret)


@task(logs="INFO", takes_context=True)
def say_and_wait(context: TaskContext, text: str, gate: str) -> None:
    logger.info("%s in attempt %s", text, context.attempt)
    eventually(Path(gate).exists, within=60)
    logger.info("after the gate")


@task(logs="INFO", durable=True)
def say_in_passes(run: DurableContext) -> Any:
    logger.info("pass begins")
    run.sleep(0)
    logger.info("pass ends")
