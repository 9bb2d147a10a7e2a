import asyncio
import time

import django

from pgqueue import BatchCall, RecordedEvent, TaskContext, task
from testproject.shop.models import Product

if django.VERSION >= (6, 0):
    from django.tasks import task as django_task
else:
    from django_tasks import task as django_task


@task
def dawdle() -> None:
    """Keep a worker busy for 20 ms without taking the processor from anybody."""
    time.sleep(0.02)


@task
def toil() -> None:
    """Take 50 ms of the processor."""
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass


@task
async def doze() -> None:
    """Wait for a second without a thread."""
    await asyncio.sleep(1)


@task(channel="errands", max_attempts=3, backoff=[0.2, 1], takes_context=True)
def errand(context: TaskContext, tenant: str, seconds: float, fails: str) -> None:
    """Take a while; fail once, or always, if that is asked for."""
    time.sleep(seconds)
    if fails == "always":
        raise PermissionError(f"{tenant} may not send anyone on errand {context.id}.")
    if fails and context.attempt == 1:
        raise TimeoutError(f"Nobody answered after {seconds:.3f} s.")


@task
def linger() -> None:
    """Take longer than anybody waits: its worker is killed before."""
    time.sleep(60)


@task
def look_up() -> None:
    """Ask one question through Django's ORM."""
    Product.objects.filter(pk=1).exists()


def _product(message_id: str) -> Product:
    return Product(sku=message_id, name="a thing", price=1, stock=1)


@task(takes_context=True)
def insert_one(context: TaskContext) -> None:
    """Insert a row with Django's ORM."""
    _product(context.id).save(force_insert=True)


@task(batch=100, batch_wait=0.05)
def insert_many(calls: list[BatchCall[[]]]) -> None:
    """Insert a row for each call, all in one statement."""
    Product.objects.bulk_create(_product(call.id) for call in calls)


@task
def nothing_on_our_own() -> None:
    """Do nothing, as a task of pgqueue's own."""


@django_task
def nothing_on_ours() -> None:
    """Do nothing, on our backend."""


@django_task(backend="tasks_db")
def nothing_on_tasks_db() -> None:
    """Do nothing, on django-tasks-db."""


@django_task(backend="ox")
def nothing_on_ox() -> None:
    """Do nothing, on django-ox."""


@task
def look_at(event: RecordedEvent) -> None:
    """Look at an event."""
    assert event.payload is not None


@task
def gather(results: list[None]) -> int:
    """Take the results of many."""
    return len(results)
