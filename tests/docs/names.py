# ruff: noqa: F401
"""What the pages' examples take for granted: the tasks, models and objects of a shop."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import psycopg
from django.db import transaction

from pgqueue import Channel, acting_as, areceive, asend, receive, send, send_many, task, watch
from pgqueue.models import History, Message
from pgqueue.webhooks import create


class Saved(SimpleNamespace):
    """A row of a model that is somewhere else."""

    def delete(self) -> None: ...

    def save(self) -> None: ...

    def confirm(self) -> None: ...


order: Any = Saved(id=7, pk=7)
customer: Any = Saved(id=3, pk=3)
payment: Any = Saved(parcel_id=0)
request: Any = Saved(user="ada")
payload = {"customer": "ada"}
payloads = [payload, payload]
psycopg_connection: Any = None  # Django's
user_id = 5
calls = [(1,), (2,)]


class Payments:
    """The manager of a model."""

    def create(self, *, order: Any, parcel_id: int) -> None:
        payment.parcel_id = parcel_id


Payment = SimpleNamespace(objects=Payments())


@task(channel="mail")
def send_receipt(order_id: int, copy: bool = False) -> None: ...


@task
def send_digest(user_id: int) -> None: ...


@task
def make_invoice(order_id: int) -> None: ...


@task
def ship(order_id: int) -> None: ...
