"""Durable tasks that are measured."""

import time
from statistics import median
from uuid import uuid4

from pgqueue import DurableContext, task
from testproject.shop.models import Product

EVENT = "bench.settled"


def nothing() -> None:
    """Do nothing."""


def insert() -> None:
    """Insert a row by Django's ORM."""
    Product.objects.create(sku=uuid4().hex, name="durable", price=1, stock=0)


@task(durable=True)
def three_steps(run: DurableContext) -> None:
    """Do nothing in three steps."""
    for _ in range(3):
        run.step(nothing)


@task(durable=True)
def steps(run: DurableContext, number: int, atomic: bool) -> float:
    """Return the median of the seconds that a step takes."""
    took = []
    for _ in range(number):
        began = time.perf_counter()
        run.step(insert if atomic else nothing, atomic=atomic)
        took.append(time.perf_counter() - began)
    return median(took)


@task(durable=True)
def sleeps(run: DurableContext) -> None:
    """Sleep; it is stored as if it slept already."""
    run.sleep(3600)


@task(durable=True)
def waits(run: DurableContext) -> None:
    """Wait for a signal."""
    run.wait_for("go")


@task(durable=True)
def waits_for_event(run: DurableContext, key: str) -> None:
    """Wait for an event."""
    run.wait_for_event(EVENT, key=key)
