"""The demo: what it promises, that it sees a promise broken, and a small one from end to end."""

import json
import smtplib
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from email.message import EmailMessage
from io import StringIO
from pathlib import Path
from typing import Any

import environ
import pytest
from django.core import mail
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connections
from django.utils import timezone

from pgqueue import RecordedEvent, flow, get_flow, webhooks
from pgqueue.engine import log
from pgqueue.models import Dependency, Flow, History, Message, Webhook
from pgqueue.options.webhook_options import new_secret
from pgqueue.states import Outcome, State
from pgqueue.testing import run_all
from pgqueue.webhooks.delivering import deliver
from testproject.shop.demo import CHANNEL, SKU_PREFIX, tour, traces
from testproject.shop.demo.baskets import fill_baskets
from testproject.shop.demo.ledger import FOLLOW_UPS, PROMISES, Ledger, audit
from testproject.shop.demo.mailserver import MailServer
from testproject.shop.demo.producers import Placed, place
from testproject.shop.demo.receiver import Receiver
from testproject.shop.demo.workers import BOUND_TO_PARENT, database_url
from testproject.shop.events import STOCK_MOVED
from testproject.shop.factories import OrderFactory, ProductFactory
from testproject.shop.models import AuditEntry, Order, Product, StockMovement
from testproject.shop.reports import report_sales, sales_in
from testproject.shop.tasks import is_stuck, move_stock, nothing
from tests.eventually import eventually
from tests.factories import record

WHOLE = Ledger(
    orders_committed=9,
    orders_rolled_back=1,
    orders_astray=0,
    orders_unmailed=0,
    orders_unposted=0,
    orders_not_moved_once=0,
    events=9,
    events_astray=0,
    enqueued=27,
    succeeded=27,
    dead=0,
    missing=0,
    retries=2,
    leases_lost=3,
    stock_movements=9,
    audited=18,
    not_audited_once=0,
    audited_out_of_order=0,
    mails=10,
    mails_of_rolled_back_orders=0,
    posts=10,
    posts_of_rolled_back_orders=0,
    reports=1,
    reports_wrong=0,
    refunds_wrong=0,
    questions_repeated=0,
    per_s=100.0,
    pickup_p50_ms=1.0,
    pickup_p99_ms=2.0,
)
BREACHES: list[dict[str, Any]] = [
    {"orders_astray": 1},
    {"events_astray": 1},
    {"missing": 1},
    {"dead": 1},
    {"succeeded": 26},
    {"succeeded": 28},
    {"stock_movements": 8},
    {"stock_movements": 10},
    {"orders_not_moved_once": 1},
    {"audited": 19},
    {"not_audited_once": 1},
    {"audited_out_of_order": 1},
    {"orders_unmailed": 1},
    {"mails": 8},
    {"mails_of_rolled_back_orders": 1},
    {"orders_unposted": 1},
    {"posts": 8},
    {"posts_of_rolled_back_orders": 1},
    {"reports": 0},
    {"reports_wrong": 1},
    {"refunds_wrong": 1},
    {"questions_repeated": 1},
]


# The promises.


def test_a_whole_ledger_is_kept() -> None:
    assert WHOLE.kept
    assert WHOLE.broken == []


@pytest.mark.parametrize("breach", BREACHES, ids=str)
def test_a_breach_is_not_kept(breach: dict[str, Any]) -> None:
    ledger = replace(WHOLE, **breach)

    assert not ledger.kept
    assert ledger.as_dict()["kept"] is False


def test_each_promise_is_broken_by_one_of_these_breaches() -> None:
    broken = {promise for breach in BREACHES for promise in replace(WHOLE, **breach).broken}

    assert broken == set(PROMISES)


# The audit, of a shop with three orders, one of them rolled back.


class Shop:
    """Three orders and their messages, as if a demo had just ended well."""

    def __init__(self) -> None:
        product = ProductFactory.create(sku=f"{SKU_PREFIX}1")
        self.orders = OrderFactory.create_batch(2, product=product, quantity=3)
        self.placed = [Placed(order.pk, is_committed=True) for order in self.orders]
        record(connections["default"], topic="order.placed", payload='{"order_id": 1}')
        self.after = log.bounds(connections["default"]).head
        for order in self.orders:
            event = {"order_id": order.pk, "email": order.email, "total": "1"}
            (position,) = record(
                connections["default"], topic="order.placed", payload=json.dumps(event)
            )
            for number, task in enumerate(FOLLOW_UPS):
                ended(3 * order.pk + number, task=task, payload=payload(order.pk))
            move(order)
            note(order, 2 * position)
            note(order, 2 * position + 1, what=STOCK_MOVED)
        self.received = Counter({order.pk: 1 for order in self.orders})
        self.posted = Counter(self.received)
        self.reports = [str(sales_in(Order.objects.all()))]
        self.lost_id = self.orders[-1].pk + 1
        self.placed.append(Placed(self.lost_id, is_committed=False))

    def ended(self, **columns: Any) -> None:
        """Have the first message end once more."""
        order = self.orders[0].pk
        ended(**{"id": 3 * order, "payload": payload(order), **columns})

    def wait(self, **columns: Any) -> None:
        """Have the first message not end."""
        order = self.orders[0].pk
        History.objects.filter(pk=3 * order).delete()
        given = {"channel": CHANNEL, "task": FOLLOW_UPS[0], "payload": payload(order)}
        Message.objects.create(id=3 * order, max_attempts=5, **given, **columns)

    def audit(self) -> Ledger:
        return audit(
            self.placed,
            self.received,
            self.posted,
            self.reports,
            timedelta(seconds=2),
            after=self.after,
        )


def payload(order: int) -> dict[str, Any]:
    return {"args": [{"topic": "order.placed", "payload": {"order_id": order}}], "kwargs": {}}


def note(order: Order, position: int, what: str = "order.placed") -> None:
    now = timezone.now()
    AuditEntry.objects.create(order=order, position=position, what=what, happened_at=now)


def ended(id: int, **columns: Any) -> None:
    now = timezone.now()
    History.objects.create(
        **{
            "id": id,
            "channel": CHANNEL,
            "key": "",
            "task": FOLLOW_UPS[0],
            "metadata": {},
            "priority": 0,
            "run_at": now,
            "attempt": 1,
            "failures": 0,
            "lost": 0,
            "max_attempts": 5,
            "ordered": False,
            "errors": [],
            "created_at": now - timedelta(seconds=3),
            "started_at": now - timedelta(seconds=2),
            "finished_at": now,
            "outcome": Outcome.SUCCEEDED,
            "txid": 1,
        }
        | columns
    )


def move(order: Order) -> None:
    StockMovement.objects.create(order=order, product=order.product, change=-order.quantity)


@pytest.fixture
def shop(db: None) -> Shop:
    return Shop()


def test_an_audit_of_what_went_well_finds_nothing(shop: Shop) -> None:
    ledger = shop.audit()

    assert ledger == Ledger(
        orders_committed=2,
        orders_rolled_back=1,
        orders_astray=0,
        orders_unmailed=0,
        orders_unposted=0,
        orders_not_moved_once=0,
        events=2,
        events_astray=0,
        enqueued=6,
        succeeded=6,
        dead=0,
        missing=0,
        retries=0,
        leases_lost=0,
        stock_movements=2,
        audited=4,
        not_audited_once=0,
        audited_out_of_order=0,
        mails=2,
        mails_of_rolled_back_orders=0,
        posts=2,
        posts_of_rolled_back_orders=0,
        reports=1,
        reports_wrong=0,
        refunds_wrong=0,
        questions_repeated=0,
        per_s=3.0,
        pickup_p50_ms=1000.0,
        pickup_p99_ms=1000.0,
    )
    assert ledger.kept


def test_an_audit_leaves_out_what_is_not_the_demos(shop: Shop) -> None:
    before = shop.audit()

    ended(10**9, channel="mail")
    move(OrderFactory.create())

    assert shop.audit() == before


def test_an_audit_counts_retries_and_lost_leases(shop: Shop) -> None:
    History.objects.filter(pk=3 * shop.orders[0].pk).update(failures=2, lost=1)

    ledger = shop.audit()

    assert (ledger.retries, ledger.leases_lost) == (2, 1)
    assert ledger.kept


def test_an_audit_finds_a_message_missing(shop: Shop) -> None:
    History.objects.filter(pk=3 * shop.orders[0].pk).delete()

    assert shop.audit().missing == 1


def test_an_audit_finds_a_message_that_succeeded_twice(shop: Shop) -> None:
    shop.ended()

    assert shop.audit().succeeded == 7


def test_an_audit_finds_a_message_of_a_transaction_that_was_rolled_back(shop: Shop) -> None:
    shop.ended(id=1, payload=payload(shop.lost_id))

    ledger = shop.audit()

    assert ledger.succeeded == 7
    assert not ledger.kept


def test_an_audit_finds_a_dead_message(shop: Shop) -> None:
    shop.wait(state=State.DEAD, lost=3)

    ledger = shop.audit()

    assert (ledger.dead, ledger.missing, ledger.leases_lost) == (1, 0, 3)
    assert not ledger.kept


def test_an_audit_finds_a_message_that_has_not_ended(shop: Shop) -> None:
    shop.wait(state=State.READY)

    ledger = shop.audit()

    assert (ledger.dead, ledger.missing, ledger.succeeded) == (0, 0, 5)
    assert not ledger.kept


def test_an_audit_finds_the_movement_of_one_order_with_another(shop: Shop) -> None:
    StockMovement.objects.filter(order=shop.orders[0]).update(order=shop.orders[1])

    ledger = shop.audit()

    assert (ledger.stock_movements, ledger.orders_not_moved_once) == (2, 2)
    assert not ledger.kept


def test_an_audit_finds_a_movement_of_another_quantity(shop: Shop) -> None:
    StockMovement.objects.filter(order=shop.orders[0]).update(change=-1)

    assert shop.audit().orders_not_moved_once == 1


def test_an_audit_finds_an_order_that_is_gone_and_one_that_should_be(shop: Shop) -> None:
    shop.orders[0].delete()
    OrderFactory.create(pk=shop.lost_id, product=shop.orders[1].product)

    assert shop.audit().orders_astray == 2


def test_an_audit_finds_an_order_that_was_published_twice(shop: Shop) -> None:
    event = {"order_id": shop.orders[0].pk, "email": "a@example.com", "total": "1"}
    record(connections["default"], topic="order.placed", payload=json.dumps(event))

    ledger = shop.audit()

    assert (ledger.events, ledger.events_astray) == (3, 1)
    assert not ledger.kept


def test_an_audit_finds_an_order_that_was_rolled_back_in_the_log(shop: Shop) -> None:
    event = {"order_id": shop.lost_id, "email": "a@example.com", "total": "1"}
    record(connections["default"], topic="order.placed", payload=json.dumps(event))

    assert shop.audit().events_astray == 1


def test_an_audit_finds_an_order_twice_in_the_trail(shop: Shop) -> None:
    note(shop.orders[1], 10**6)

    ledger = shop.audit()

    assert (ledger.audited, ledger.not_audited_once) == (5, 1)
    assert not ledger.kept


def test_an_audit_finds_a_trail_that_is_not_in_the_order_of_the_log(shop: Shop) -> None:
    entry = AuditEntry.objects.order_by("id")[0]
    AuditEntry.objects.filter(pk=entry.pk).update(position=10**6)

    ledger = shop.audit()

    assert (ledger.not_audited_once, ledger.audited_out_of_order) == (0, 1)
    assert not ledger.kept


def test_an_audit_finds_an_order_without_a_mail_beside_one_with_two(shop: Shop) -> None:
    shop.received = Counter({shop.orders[0].pk: 2})

    ledger = shop.audit()

    assert (ledger.mails, ledger.orders_unmailed) == (2, 1)
    assert not ledger.kept


def test_an_audit_finds_a_mail_of_an_order_that_was_rolled_back(shop: Shop) -> None:
    shop.received[shop.lost_id] += 1

    assert shop.audit().mails_of_rolled_back_orders == 1


def test_an_audit_finds_an_order_that_was_not_posted_and_one_that_should_not_be(
    shop: Shop,
) -> None:
    shop.posted = Counter({shop.orders[0].pk: 2, shop.lost_id: 1})

    ledger = shop.audit()

    assert (ledger.posts, ledger.orders_unposted) == (3, 1)
    assert ledger.posts_of_rolled_back_orders == 1


def test_an_audit_finds_a_report_that_says_something_else_than_the_orders(shop: Shop) -> None:
    OrderFactory.create(product=shop.orders[0].product)

    ledger = shop.audit()

    assert (ledger.reports, ledger.reports_wrong) == (1, 1)
    assert not ledger.kept


def test_clearing_removes_the_demos_rows_and_no_others(shop: Shop) -> None:
    ended(10**9, channel="mail")
    Message.objects.create(channel=CHANNEL, task="shop", state=State.READY, max_attempts=5)
    theirs = Message.objects.create(channel="mail", task="x", state=State.READY, max_attempts=5)
    move(order := OrderFactory.create())
    report_sales.enqueue("owner@shop.example")
    run_all()
    with flow("theirs") as other:
        other.enqueue(nothing)
    theirs_too = Message.objects.get(task=nothing.name)

    traces.clear()

    assert list(History.objects.values_list("pk", flat=True)) == [10**9]
    assert list(Message.objects.order_by("pk")) == [theirs, theirs_too]
    assert [each.name for each in Flow.objects.all()] == ["theirs"]
    assert not Dependency.objects.exists()
    assert list(Order.objects.all()) == [order]
    assert StockMovement.objects.count() == Product.objects.count() == 1


# The parts.


@pytest.mark.django_db
def test_the_report_is_a_flow_that_adds_up_each_product_and_mails_the_sum_once() -> None:
    products = ProductFactory.create_batch(3, price=Decimal("1.50"))
    OrderFactory.create(product=products[0], quantity=2)
    OrderFactory.create_batch(2, product=products[2], quantity=1)

    report = report_sales.enqueue("owner@shop.example")
    run_all()

    [sent] = mail.outbox
    assert (sent.to, sent.body) == (["owner@shop.example"], "3 orders, 4 pieces, 6.00 in all.\n")
    report.refresh()
    assert get_flow(report.return_value).progress == (5, 0, 0, 0, 0)


@pytest.mark.django_db
def test_a_tenth_of_the_baskets_is_not_paid_and_a_seed_fills_the_same_again() -> None:
    baskets = fill_baskets(50, seed=7)
    traces.clear()
    again = fill_baskets(50, seed=7)

    assert sum(not basket.is_paid for basket in baskets) == 5
    assert [(basket.order.email, basket.order.quantity, basket.is_paid) for basket in baskets] == [
        (basket.order.email, basket.order.quantity, basket.is_paid) for basket in again
    ]


def test_the_injected_failures_alone_kill_no_message() -> None:
    assert move_stock.max_attempts
    failures = [sum(is_stuck(order, attempt) for attempt in range(1, 20)) for order in range(5000)]

    assert 0 < max(failures) < move_stock.max_attempts
    assert 800 < sum(is_stuck(order, 1) for order in range(5000)) < 1200


def test_the_mail_server_counts_receipts_by_order() -> None:
    mail = EmailMessage()
    mail["To"] = "ada@example.com"
    mail["From"] = "shop@example.com"
    mail["X-Order"] = "42"

    with MailServer() as server, smtplib.SMTP(server.host, server.port) as client:
        client.send_message(mail)
        client.send_message(mail)

    assert server.received == {42: 2}


@pytest.mark.django_db
def test_the_partner_counts_the_orders_that_are_signed_with_its_secret() -> None:
    event = {"order_id": 42, "email": "ada@example.com", "total": "1"}

    with Receiver() as partner:
        for secret, times in ((partner.secret, 2), (new_secret(), 1)):
            webhooks.delete("partner")
            webhooks.create("partner", partner.url, secret=secret, max_attempts=1)
            for _ in range(times):
                deliver.using(key="partner", max_attempts=1).enqueue(placed(event))
            run_all()

    assert partner.received == {42: 2}
    assert "HTTP 401" in Message.objects.get().errors[-1]["message"]


def placed(payload: dict[str, Any]) -> RecordedEvent:
    return RecordedEvent(1, "order.placed", "", json.dumps(payload), "{}", timezone.now())


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://postgres@//tmp/socket/shop",
        "postgresql://postgres@:5433//tmp/socket/shop",
        "postgresql://ada:se%2Fcret@db.example.com:5433/shop?sslmode=require",
        "postgresql://ada@db.example.com/shop?conn_max_age=5",
    ],
)
def test_workers_find_the_database_that_is_in_use(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", url)
    given = environ.Env.db_url_config(url)

    found = environ.Env.db_url_config(database_url({**given, "NAME": "test_shop gw0"}))

    assert found == {**given, "NAME": "test_shop gw0"}


def test_workers_find_the_embedded_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    database = {"USER": "postgres", "HOST": "/var/tmp/a/socket", "PORT": "5432", "NAME": "pgqueue"}

    found = environ.Env.db_url_config(database_url(database))

    assert {**found, "PORT": str(found["PORT"])} == {**found, **database}


def is_alive(process: Path) -> bool:
    """Say whether it runs: a zombie, which its parent has not waited for, does not."""
    try:
        return "State:\tZ" not in (process / "status").read_text()
    except OSError:
        return False


def test_a_bound_process_dies_with_its_parent() -> None:
    sleeper = "print('awake', flush=True); import time; time.sleep(600)"
    starts = (
        "import os, subprocess, sys;"
        f"program = {str(BOUND_TO_PARENT)!r};"
        f"command = [sys.executable, program, str(os.getpid()), '-c', {sleeper!r}];"
        "child = subprocess.Popen(command, stdout=subprocess.PIPE);"
        "print(child.stdout.readline() and child.pid, flush=True); child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        child = Path("/proc") / parent.stdout.readline().decode().strip()
        assert is_alive(child)
        parent.kill()

    eventually(lambda: not is_alive(child))


# The command.


@pytest.fixture
def say(capfd: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run the demo, and return the one JSON object that it may print."""

    def run(*options: str) -> Any:
        call_command("demo", "--format", "json", *options)
        return json.loads(capfd.readouterr().out)

    return run


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_demo_keeps_its_promises_though_its_worker_is_killed(say: Callable[..., Any]) -> None:
    place(fill_baskets(1, seed=7)[0])
    traces.clear()  # but for its event, whose order is gone
    Shop()  # as a demo before this one left it
    Message.objects.create(channel=CHANNEL, task="gone", state=State.READY, max_attempts=5)

    ledger = say("--orders", "300", "--seed", "1")

    assert ledger["kept"] is True
    assert ledger["orders_committed"] == ledger["stock_movements"] == 270
    assert ledger["orders_rolled_back"] == 30
    assert (ledger["events"], ledger["audited"]) == (270, 540)
    assert ledger["enqueued"] == ledger["succeeded"] == 810
    assert ledger["posts"] >= 270
    assert ledger["reports"] >= 1
    assert not Webhook.objects.exists()
    assert ledger["dead"] == ledger["missing"] == ledger["mails_of_rolled_back_orders"] == 0
    assert ledger["mails"] >= 270
    assert ledger["retries"] > 0
    assert ledger["leases_lost"] > 0
    assert ledger["refunds_wrong"] == ledger["questions_repeated"] == 0
    assert 0 < ledger["pickup_p50_ms"] <= ledger["pickup_p99_ms"]
    assert ledger["per_s"] > 0


@pytest.mark.django_db(transaction=True)
def test_two_demos_on_one_database_are_one_too_many() -> None:
    with closing(connections["default"].copy()) as other, other.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", [tour.LOCK])

        with pytest.raises(CommandError, match="Another demo"):
            call_command("demo")


@pytest.mark.django_db
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_broken_promise_is_shown_and_fails_the_command(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "run", lambda plan: replace(WHOLE, missing=1))
    out = StringIO()

    with pytest.raises(CommandError, match="No message is missing") as raised:
        call_command("demo", "--format", form, stdout=out)

    assert raised.value.returncode == 1
    if form == "json":
        assert json.loads(out.getvalue())["kept"] is False
    else:
        assert "Every promise was kept" not in out.getvalue()
