from __future__ import annotations

import time

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from pgqueue import (
    DurableContext,
    RecordedEvent,
    Schedule,
    TaskContext,
    consumer,
    subscribe,
    task,
)
from tests.tenants.notes.models import Note


@task
def note(text: str) -> None:
    Note.take(text)


@task
def note_again(earlier: Note, since: int) -> None:
    Note.take(f"{earlier.text} again")


@task
def count() -> int:
    return Note.objects.count()


@task
async def note_async(text: str) -> None:
    await sync_to_async(Note.take)(text)


@task(atomic=True)
def note_atomically(text: str) -> None:
    Note.take(text)
    transaction.on_commit(lambda: Note.take(f"{text} on commit"))


@task(takes_context=True)
def note_children(context: TaskContext, text: str) -> None:
    Note.take(f"{text} of {context.tenant}")
    note.enqueue(f"{text}'s child")


@task(durable=True)
def note_in_steps(run: DurableContext, text: str) -> None:
    run.step(Note.take, f"{text} in a step", name="take")


@task
def fail(text: str) -> None:
    Note.take(text)
    raise ValueError(text)


@task(atomic=True)
def break_transaction(text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@task
def leave_transaction_open(text: str) -> None:
    transaction.set_autocommit(False)
    Note.take(text)


@task(timeout=0.2)
def overrun(text: str) -> None:
    Note.take(text)
    while True:
        time.sleep(0.01)


@task(schedule=Schedule(3600, name="hourly", each_tenant=True))
def note_hourly() -> None:
    Note.take("hourly")


@subscribe("noted")
def note_event(event: RecordedEvent) -> None:
    Note.take(f"{event.payload} by a subscription")


@consumer("readers", topics="noted")
def read_event(event: RecordedEvent) -> None:
    Note.take(f"{event.payload} by a group")
