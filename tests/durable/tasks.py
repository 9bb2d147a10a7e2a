"""Durable tasks, and the steps that they call."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from django.contrib.auth.models import Group

from pgqueue import task
from pgqueue.database.connections import connect
from pgqueue.durable import DurableContext, signal
from pgqueue.exceptions import StepFailed

calls: list[str] = []


@dataclass
class Approval:
    by: str
    pages: list[int]


def add(left: int, right: int) -> int:
    calls.append("add")
    return left + right


def double(value: int) -> int:
    calls.append("double")
    return 2 * value


@task(durable=True)
def plain(run: DurableContext, start: int) -> int:
    total = run.step(add, start, 1)
    return run.step(double, total)


@task(durable=True)
def sleeps(run: DurableContext) -> str:
    run.step(add, 1, 2)
    run.sleep(0.2)
    run.step(double, 4)
    return "awake"


@task(durable=True)
def asks(run: DurableContext) -> str:
    answer = run.wait_for("approved", Approval)
    return f"{answer.by} {answer.pages}"


@task
def approves(id: int, answer: int) -> None:
    signal(id, "go", answer)


@task
def square(value: int) -> int:
    if value < 0:
        raise ValueError("negative")
    return value * value


@task(durable=True)
def gathers(run: DurableContext, values: list[int]) -> int:
    calls.append("gathers")
    return sum(run.gather([run.call(square, each) for each in values]))


@task(durable=True)
def enqueues(run: DurableContext) -> str:
    result = run.enqueue(square, 3)
    run.sleep(0)
    return result.id


@task(durable=True)
def pays(run: DurableContext, order: str) -> str:
    paid = run.wait_for_event("payment.settled", key=order, where={"total__gte": 10}, timeout=60)
    return "never" if paid is None else f"{paid.key} {paid.payload['total']}"


@task(durable=True, dedupe_key="loop")
def loops(run: DurableContext, number: int) -> int:
    run.step(add, number, 0)
    if number < 3:
        run.continue_as(number + 1)
    return number


async def fetch(value: int) -> int:
    calls.append("fetch")
    return value


@task(durable=True)
async def asynchronous(run: DurableContext) -> str:
    now = run.now()
    total = (
        await run.astep(fetch, 1)
        + await run.astep(add, 1, 1)
        + await run.astep(double, 2, atomic=True)
    )
    answer = await run.await_for("go", int, timeout=60)
    [squared] = await run.agather([run.call(square, 3)])
    return f"{total} {answer} {squared} {now == run.now()}"


@task(durable=True)
def has_blocks(run: DurableContext) -> list[int]:
    with run.atomic("first") as first:
        calls.append("first")
        first.result = 1
    with run.atomic("second") as second:
        calls.append("second")
        second.result = 2
    with run.atomic("third"):
        for _ in range(1):
            calls.append("third")
    results = []
    for number in range(2):
        with run.atomic("loop") as step:
            calls.append("loop")
            step.result = number
        results.append(step.result)
    run.sleep(0)
    return [first.result, second.result, *results]


@task(durable=True)
def asks_late(run: DurableContext, start: int) -> int:
    total = run.step(double, run.step(add, start, 1))
    return total + run.wait_for("go", int) + start


@task(durable=True)
def asks_twice(run: DurableContext) -> int:
    total = run.wait_for("go", int) + run.wait_for("go", int)
    return total + run.wait_for("end", int)


@task(durable=True, encrypted=True)
def secret(run: DurableContext, start: int) -> int:
    total = run.step(add, start, 41)
    run.uuid()
    with run.atomic("block") as block:
        block.result = "hush 41"
    number = run.wait_for("go", int)
    return total + number + sum(run.gather([run.call(square, 3)]))


def nothing() -> None:
    pass


@task(durable=True)
def many(run: DurableContext, number: int, atomic: bool) -> list[float]:
    import time

    took = []
    for _ in range(number):
        began = time.perf_counter()
        run.step(nothing, atomic=atomic)
        took.append(time.perf_counter() - began)
    took.sort()
    return [took[number // 10], took[number // 2], took[9 * number // 10]]


failing = {"on": True}


def fails() -> str:
    calls.append("fails")
    if failing["on"]:
        raise ValueError("no")
    return "yes"


@task(durable=True, max_attempts=1)
def may_fail(run: DurableContext) -> str:
    return run.step(fails, retries=1, backoff=[0])


def refuses() -> None:
    calls.append("refuses")
    raise ValueError("never")


@task(durable=True, max_attempts=1)
def handles_a_failure(run: DurableContext) -> str:
    with suppress(StepFailed):
        run.step(refuses, retries=0)
    return run.step(fails, retries=0)


@task(durable=True)
def waits_for_slow(run: DurableContext) -> None:
    run.gather([run.call(late.using(run_after=3600))], cancels=True)


@task
def late() -> None:
    pass


def note(name: str) -> None:
    Group.objects.create(name=name)


def take_long() -> None:
    note("slow began")
    time.sleep(1.5)
    note("slow ended")


@task(durable=True)
def slow(run: DurableContext) -> str:
    run.step(note, "first", name="first")
    run.step(take_long, name="slow")
    run.step(note, "last", name="last")
    return "done"


def take_too_long() -> None:
    sign("slow began")
    for _ in range(300):
        time.sleep(0.1)


def sign(name: str) -> None:
    """Note a name though the transaction of the caller may be rolled back."""
    with connect("default", name="test") as other:
        other.execute("INSERT INTO auth_group (name) VALUES (%s)", [name])


@task(durable=True, max_attempts=1)
def too_slow_a_step(run: DurableContext) -> None:
    run.step(note, "first", name="first")
    run.step(take_too_long, name="slow", atomic=True)


@task(durable=True, max_attempts=1)
def too_slow_a_block(run: DurableContext) -> None:
    run.step(note, "first", name="first")
    with run.atomic("slow"):
        take_too_long()


@task(durable=True)
def naps(run: DurableContext) -> str:
    run.sleep(3600, name="night")
    return "awake"


@task(durable=True)
def asks_then_naps(run: DurableContext) -> int:
    number = run.wait_for("go", int)
    run.sleep(3600)
    return number


@task(durable=True)
def fails_slowly(run: DurableContext) -> str:
    return run.step(fails, retries=3, backoff=[3600])


CARD, CODE, PIN = "4111 1111 1111 1111", "hush-hush-17", "word-of-the-day"


def charge(card: str) -> dict[str, object]:
    return {"receipt": {"number": f"paid by {card}"}, "pin": PIN, "code": CODE, "ok": 1}


@task(durable=True, max_attempts=1, redact=["card", "steps.charge.code", "signals.approved.answer"])
def pays_by_card(run: DurableContext, card: str) -> None:
    paid = run.step(charge, card)
    given = run.wait_for("approved")
    raise ValueError(f"{paid['code']} {paid['pin']} {given['answer']} {card}")


@task(redact=["return.code"])
def issue(card: str) -> dict[str, str]:
    return {"code": CODE, "issuer": "a bank", "card": card}


@task(durable=True, max_attempts=1, redact=["steps.gather.card"])
def issues_cards(run: DurableContext) -> None:
    [issued] = run.gather([run.call(issue, CARD)])
    raise ValueError(f"{issued['code']} {issued['card']} of {issued['issuer']}")
