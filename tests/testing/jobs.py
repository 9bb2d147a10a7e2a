"""Tasks that are run by `pgqueue.testing`."""

from __future__ import annotations

from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

from pgqueue import Retry, TaskContext, task
from tests import jobs


@task
def break_the_transaction(name: str) -> str:
    """Catch an error of the database where a transaction is not usable any more after it."""
    Group.objects.create(name=name)
    try:
        Group.objects.create(name=name)
    except IntegrityError:
        return "caught"
    return "none"


@task(max_attempts=1)
def violate(name: str) -> None:
    Group.objects.create(name=name)
    Group.objects.create(name=name)


@task(atomic="serializable", max_attempts=2, backoff=[3600], takes_context=True)
def leave_at_the_second_attempt(context: TaskContext, name: str) -> None:
    Group.objects.create(name=name)
    if context.attempt == 1:
        raise ValueError("after writing")


@task(atomic=True)
def tell_after_the_commit(name: str) -> None:
    transaction.on_commit(lambda: Group.objects.create(name=name))


@task
async def leave_in_a_transaction(name: str) -> bool:
    await Group.objects.acreate(name=name)
    return await sync_to_async(lambda: connection.in_atomic_block)()


@task
def enqueue_another(name: str) -> str:
    return jobs.leave.enqueue(name).status.value


@task(takes_context=True)
def come_back(context: TaskContext, seconds: float) -> int:
    if context.progress is None:
        context.defer(seconds, progress=1)
    return context.attempt


@task(max_attempts=3)
def ask_for_a_retry() -> None:
    raise Retry(3600)


@task
def delete(group: Group) -> None:
    group.delete()


@task(takes_context=True)
def handle(context: TaskContext, payload: str) -> None:
    Group.objects.create(name=f"{payload} {len(context.body or b'')}")
