"""Fill the tables of the first version, by its own code: it is run in a checkout of that."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import django

django.setup()

from django.core.management import call_command  # noqa: E402

from pgqueue import Channel, flow, publish, send  # noqa: E402
from pgqueue.events import subscriptions  # noqa: E402
from pgqueue.models import History, Message, Schedule  # noqa: E402
from tests.eventually import eventually  # noqa: E402
from tests.upgrade.tasks import add, die, fail, fail_once, typed  # noqa: E402

YEARS = timedelta(days=3650)
FAILING = Path("failing")
"""While there is such a file, some tasks fail."""


def fill() -> None:
    call_command("migrate", verbosity=0)
    configure()
    end_some()
    leave_others()


def configure() -> None:
    mail = Channel("mail")
    mail.configure(retention=YEARS, dead_retention=YEARS)
    mail.policy(max_running=2, rate=100, each_key=True)
    Schedule.objects.create(name="daily", task=add.name, cron="@daily", args=[1, 1], paused=True)
    subscriptions.create("orders", topics="order.*", where={"total__gte": 10}, channel="orders")


def end_some() -> None:
    """Have messages succeed, fail, die and end otherwise."""
    FAILING.touch()
    add.enqueue_many([(1, 2), (3, 4)])
    typed.enqueue(date(2026, 1, 2), Decimal("9.90"))
    add.using(run_after=3600).enqueue(5, 6).cancel()
    add.using(run_after=3600, ttl=0.01).enqueue(5, 6)
    fail.using(channel="mail").enqueue(str(FAILING))
    fail_once.enqueue(str(FAILING))
    worker = subprocess.Popen([sys.executable, "manage.py", "runworker", "--threads", "1"])
    eventually(lambda: History.objects.count() == 5)
    for state in ("dead", "scheduled"):
        eventually(Message.objects.filter(failures=1, state=state).exists)
    worker.terminate()
    worker.wait()


def leave_others() -> None:
    """Have a message in each state in which it lives: of one its worker dies."""
    die.enqueue()
    subprocess.run([sys.executable, "manage.py", "runworker", "--threads", "1"], check=False)
    add.using(channel="mail", key="ada", priority=10).enqueue(7, 8)
    add.using(channel="mail", key="ada", ordered=True).enqueue_many([(9, 10), (11, 12)])
    add.using(run_after=60).enqueue(13, 14)
    add.using(dedupe_key="once").enqueue(15, 16)
    add.hold(for_=YEARS).enqueue(17, 18)
    typed.using(metadata={"trace": "abc"}).enqueue(date(2026, 1, 2), Decimal("9.90"), {1, 2}, b"x")
    send("raw", {"to": "ada"}, body=b"\x00\x01", key="k")
    with flow("sum") as f:
        f.enqueue(add, f.enqueue(add, 50, 50), 5)
    publish("order.paid", {"total": 5}, key="ada")
    publish("order.paid", {"total": 50}, key="ada")


fill()
