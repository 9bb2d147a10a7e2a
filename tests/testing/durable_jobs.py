"""Durable tasks that are replayed."""

from datetime import timedelta

from django.contrib.auth.models import Group

from pgqueue import DurableContext, task


def nothing() -> None: ...


@task(durable=True)
def writes_between(run: DurableContext) -> str:
    run.step(nothing)
    Group.objects.create(name=f"{run.attempt} {Group.objects.count()}")
    return "written"


@task(durable=True)
def fails_between(run: DurableContext) -> float:
    run.step(nothing)
    return 1 / 0


@task(durable=True)
def sleeps_long(run: DurableContext) -> str:
    run.sleep(timedelta(days=14))
    return "awake"


tries: list[int] = []


def fail_twice() -> int:
    tries.append(len(tries))
    if len(tries) < 3:
        raise ValueError
    return len(tries)


@task(durable=True)
def tries_a_step(run: DurableContext) -> int:
    number = run.step(fail_twice, backoff=[3600])
    run.sleep(timedelta(days=14))
    return number
