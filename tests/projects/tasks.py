"""Work of every kind that these projects have."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.contenttypes.models import ContentType
from django.utils import timezone

from pgqueue import RecordedEvent, Schedule, TaskContext, consumer, publish, subscribe, task

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@task
def add(a: int, b: int) -> int:
    return a + b


@task
async def add_async(a: int, b: int) -> int:
    return a + b


@task(atomic=True, takes_context=True)
def keep(context: TaskContext, name: str) -> None:
    """Write a row and an event in the transaction of the run."""
    context.checkpoint({"name": name})
    ContentType.objects.create(app_label="kept", model=name)
    publish("row.kept", {"name": name}, key=name)


@task(ordered=True, key="one")
def follow(number: int) -> int:
    return number


@task(max_attempts=1)
def fail() -> None:
    raise ValueError("as it should")


@task(backoff=[0])
def waver(at: datetime) -> str:
    """Fail once."""
    name = f"wavered at {at.isoformat()}"
    if ContentType.objects.get_or_create(app_label="wavered", model=name)[1]:
        raise ValueError("the first time")
    return name


@task
def named(row: ContentType) -> str:
    return str(row.model)


@dataclass
class Parcel:
    sent_at: datetime
    weight: float


@task
def weigh(parcel: Parcel) -> float:
    assert timezone.is_aware(parcel.sent_at) == timezone.is_aware(timezone.now())
    return parcel.weight


@task(schedule=Schedule(timedelta(seconds=1)))
def tick() -> None: ...


@subscribe("row.*", start="beginning")
def kept(event: RecordedEvent) -> str:
    return str(event.payload["name"])


@consumer("readers", topics="row.*", start="beginning", atomic=True)
def read_row(event: RecordedEvent) -> None:
    ContentType.objects.create(app_label="read", model=event.payload["name"])
