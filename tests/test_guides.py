"""The guides' examples run as they stand; those to be tried beside a worker, beside one."""

from __future__ import annotations

import json
import re
import sys
import unittest
from collections.abc import Callable, Iterator
from datetime import timedelta
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState
from django.test import AsyncRequestFactory, override_settings
from django.utils.module_loading import autodiscover_modules
from pytest_django import DjangoDbBlocker

from pgqueue import (
    Channel,
    flow,
    operations,
    publish,
    publish_many,
    read,
)
from pgqueue.engine import dispatch
from pgqueue.events import consumers, groups, growth, subscribing, subscriptions, typed
from pgqueue.events.consuming import GroupReader
from pgqueue.events.rebuilding import RebuildReader
from pgqueue.models import Group, History, Message, Subscription, Webhook
from pgqueue.options import serializers
from pgqueue.options.filters import Filter
from pgqueue.sse import StreamedMessage
from pgqueue.states import Outcome, State
from pgqueue.tasks import declaration, scheduling
from pgqueue.testing import run_all
from tests.brokers import Redis
from tests.docs.blocks import Block, blocks, pages
from tests.docs.shop import install_shop
from tests.eventually import eventually
from tests.processes import worker
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parent.parent / "docs" / "guide"
PROJECT = "testproject"


@pytest.fixture(autouse=True)
def _nothing_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no events and groups of the guides to other tests."""
    monkeypatch.setattr(consumers, "_consumers", {})
    monkeypatch.setattr(typed, "_classes", {})


def example(name: str) -> str:
    """Return the Python of a guide, as one program."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", (GUIDE / name).read_text(), re.M | re.S))


def tried(*languages: str) -> dict[str, list[Block]]:
    """Return the blocks under "Try it" of each page that has any."""
    found = {page.name: blocks(f"docs/guide/{page.name}", *languages) for page in GUIDE.glob("*")}
    found = {page: [b for b in all_ if b.section == "Try it"] for page, all_ in found.items()}
    return {page: rest for page, rest in found.items() if rest}


@pytest.fixture
def saved(
    own_tasks: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[list[Block]], str]]:
    """A function that saves the files of a page as a reader does, in apps of a project.

    It returns the name of the project's settings. Then the other blocks can import the apps.
    """
    apps: list[str] = []

    def save(of_page: list[Block]) -> str:
        for block in of_page:
            if block.file:
                file = tmp_path / block.file
                file.parent.mkdir()
                file.write_text(block.code)
                (file.parent / "__init__.py").touch()
                if file.name == "tasks.py":
                    apps.append(file.parent.name)
        settings = "from tests.worker_settings import *\nINSTALLED_APPS += "
        (tmp_path / "guide_settings.py").write_text(f"{settings}{apps}")
        return "guide_settings"

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield save
    for name in list(sys.modules):
        if name.partition(".")[0] in apps:
            del sys.modules[name]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", sorted(tried("python").keys() - tried("sql").keys()))
def test_what_one_is_to_try_works(
    name: str, saved: Callable[[list[Block]], str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = tried("python")[name]
    program = "\n".join(block.code for block in found if not block.file)

    with worker(project=saved(found)):
        exec(compile(program, name, "exec"), {})  # noqa: S102

    said = capsys.readouterr().out
    for promised in re.findall(r"print\(.*\)  # (\w+)", program):
        assert promised in said


def test_examples_import_only_what_a_reader_has() -> None:
    """A reader has pgqueue, Django and the files of the page."""
    found = [str(block) for page in pages() for block in blocks(page) if PROJECT in block.code]

    assert found == []


@pytest.mark.django_db(transaction=True)
def test_what_one_is_to_try_in_sql_works(saved: Callable[[list[Block]], str]) -> None:
    [page] = tried("sql")
    [statement] = tried("sql")[page]

    with worker(project=saved(tried("python")[page])):
        with connection.cursor() as cursor:
            cursor.execute(statement.code)
        eventually(History.objects.filter(outcome="succeeded").exists)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["limits.md", "channels.md"])
def test_an_example_runs(name: str) -> None:
    program = example(name)
    assert "Channel(" in program

    exec(compile(program, name, "exec"), {})  # noqa: S102


@pytest.mark.django_db
def test_the_policies_of_the_example_are_those_it_describes() -> None:
    exec(compile(example("limits.md"), "limits.md", "exec"), {})  # noqa: S102

    mail = Channel("mail")
    assert [(policy.scope, policy.max_running) for policy in mail.policies()] == [
        ("channel", 20),
        ("each", 2),
    ]
    assert [policy.weight for policy in Channel("news").policies()] == [1, 5]


def test_the_schedules_of_the_example_are_those_it_describes(
    own_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    declaration.tasks.clear()
    in_code, in_settings, *_ = re.findall(
        r"^```python\n(.*?)^```",
        (GUIDE / "schedules.md").read_text().partition("## In code")[2],
        re.M | re.S,
    )
    shop = ModuleType("shop.tasks")
    monkeypatch.setitem(sys.modules, "shop.tasks", shop)
    for name in ("clear_sessions", "fetch_rates"):
        exec(f"from pgqueue import task\n@task\ndef {name}(base=''): ...", shop.__dict__)  # noqa: S102
    own = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", own)

    exec(in_code, own.__dict__)  # noqa: S102
    exec(in_settings, own.__dict__)  # noqa: S102
    with override_settings(PGQUEUE=own.PGQUEUE):
        declared = scheduling.declared("default")

    assert [(each.name, each.cron, each.every, each.timezone, each.args) for each in declared] == [
        ("clear sessions", "@weekly", None, "UTC", "[]"),
        ("close Berlin", "0 3 * * *", None, "Europe/Berlin", '["de"]'),
        ("close New York", "@daily", None, "America/New_York", '["us"]'),
        ("example.look_for_mail", "*/5 * * * *", None, "UTC", "[]"),
        ("example.poll_the_bank", "", timedelta(seconds=30), "UTC", "[]"),
        ("rates", "", timedelta(minutes=5), "UTC", "[]"),
    ]


def as_module(page: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the examples of a page as the module that a reader would have."""
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    exec(compile(example(page), page, "exec"), module.__dict__)  # noqa: S102
    return module


@pytest.mark.django_db(transaction=True)
def test_a_task_comes_back_until_everyone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    module = as_module("inside-a-task.md", monkeypatch)
    task = module.tell_everyone
    users = [User.objects.create(username=name, email=f"{name}@x.org") for name in "abc"]
    result = task.enqueue("We have moved", at_once=2)

    call_command("runworker", "--drain")
    waiting = Message.objects.get()
    read = module.progress_of(result)
    told = [message.to for message in mail.outbox]
    Message.objects.update(state=State.READY)
    call_command("runworker", "--drain")

    assert (waiting.state, waiting.progress, read) == (State.SCHEDULED, users[1].pk, users[1].pk)
    assert module.progress_of(result) == users[2].pk
    assert told == [["a@x.org"], ["b@x.org"]]
    assert [message.to for message in mail.outbox][2:] == [["c@x.org"]]
    ended = History.objects.get()
    assert (ended.outcome, ended.result) == (Outcome.SUCCEEDED, users[2].pk)


@pytest.mark.django_db(transaction=True)
def test_the_flows_of_the_guide_return_what_it_says(
    own_tasks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    module.__dict__["flow"] = flow  # which the first example imports
    returned = {}

    for block in re.findall(
        r"^```python\n(.*?)^```", (GUIDE / "flows.md").read_text(), re.M | re.S
    )[2:]:
        exec(compile(block, "flows.md", "exec"), module.__dict__)  # noqa: S102
        for ran in run_all():
            returned.setdefault(ran.task.name, ran.return_value)
    with flow("crawled") as f:
        f.enqueue(module.crawl, "https://a.example")
    run_all()

    assert returned["example.merge"] == 34
    assert returned["example.report"] == ["fetched"]
    assert returned["example.mail"] == "7 to owner@shop.example"
    assert f.progress.done == 4
    module.last.refresh()
    module.step.refresh()
    assert (module.last.return_value, module.step.return_value) == (18, 256)


@pytest.fixture
def log(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that may declare events and groups, on an empty log."""
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    yield module
    growth.forget_all()


def test_the_examples_of_events_run(log: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example("events.md"), "events.md", "exec"), log.__dict__)  # noqa: S102

    said = capsys.readouterr().out.splitlines()
    assert said[:2] == [
        "1 order.placed {'order': 7, 'total': 120}",
        "2 order.paid {'order': 7}",
    ]
    assert said[-1] == f"the log ends at {read()[-1].position}"


def test_the_sql_of_events_runs(log: ModuleType) -> None:
    statements = re.findall(r"^```sql\n(.*?)^```", (GUIDE / "events.md").read_text(), re.M | re.S)

    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)

    assert [(each.topic, each.key, each.payload) for each in read()] == [
        ("order.paid", "customer:7", {"order": 12}),
        ("seat.booked", "seat:14C", {"by": "ada"}),
        ("order.paid", "customer:7", {"order": 13}),
    ]


def test_the_patterns_of_events_match_as_the_table_says(log: ModuleType) -> None:
    _, _, table = (GUIDE / "events.md").read_text().partition("| | `order.paid` |")
    lines = [line.split("|") for line in table.partition("\n\n")[0].splitlines()[2:]]
    topics = ["order.paid", "order.line.added", "user.signed_up"]
    for topic in topics:
        publish(topic)

    assert len(lines) == 5
    for _, pattern, *cells, _ in lines:
        found = [each.topic for each in read(topics=pattern.strip(" `"))]
        said = zip(topics, cells, strict=True)
        assert found == [topic for topic, cell in said if cell.strip() == "yes"], pattern


def test_the_handlers_of_groups_are_given_their_events(
    log: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    User.objects.create(username="counter")
    exec(compile(example("groups.md"), "groups.md", "exec"), log.__dict__)  # noqa: S102
    readers = [GroupReader(each) for each in consumers.declared()]
    for reader in readers:
        reader.tick()
    capsys.readouterr()
    publish("user.signed_up", {"name": "Ada"}, key="user:1")
    publish("product.added", {"sku": "A1", "listed": True})
    publish("product.added", {"sku": "B2", "listed": False})

    for reader in readers:
        reader.tick()
        reader.finish()

    said = set(capsys.readouterr().out.splitlines())
    assert said >= {"Welcome Ada", "indexing ['A1']", "user:1 2", " 3", " 4"}
    assert User.objects.get().first_name == "2"
    assert dict(Group.objects.values_list("name", "partitions")) == {
        "mirror": 8,
        "sales": 1,
        "search": 1,
        "signups": 1,
        "welcome": 1,
    }
    execute("CREATE TABLE sales (order_id text, total int)")
    try:
        rebuild_sales(log.count_sale)
        with connection.cursor() as cursor:
            cursor.execute("SELECT order_id, total FROM sales")
            assert cursor.fetchall() == [("order:1", 7)]
    finally:
        execute("DROP TABLE sales")


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def rebuild_sales(consumer: consumers.Consumer) -> None:
    """Publish an order, have it handled with an error, and rebuild the group."""
    publish("order.paid", {"total": 7}, key="order:1")
    live, rebuild = GroupReader(consumer), RebuildReader(consumer)
    live.tick()
    execute("UPDATE sales SET total = 0")
    groups.rebuild("sales")
    for _ in range(5):
        rebuild.tick()
    rebuild.finish()
    live.finish()
    assert not Group.objects.filter(name="sales:rebuild").exists()


@pytest.fixture
def subscribed(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A module that may declare subscriptions, and is alone in that."""
    autodiscover_modules("tasks", "events")  # the tasks that these declare must stay
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    monkeypatch.setattr(typed, "_classes", {})
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    with patch.dict(declaration.tasks):
        yield module
    growth.forget_all()


def run_subscriptions() -> None:
    """Give events their positions, and make and run their messages, as a worker does."""
    groups.resolve(connection, "now")
    subscriptions.synchronize()
    done = False
    while not done:
        with transaction.atomic():
            done = dispatch.step(connection.connection).is_last
    call_command("runworker", "--drain")


def test_the_functions_of_the_guide_are_run_with_the_events_they_want(
    subscribed: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    publish("user.signed_up", {"name": "Ada"})
    _, _, text = (GUIDE / "subscriptions.md").read_text().partition("## In code")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S))
    exec(compile(code, "subscriptions.md", "exec"), subscribed.__dict__)  # noqa: S102
    run_subscriptions()
    for cents in (10_000, 500):
        publish(subscribed.OrderPaid(order_id=cents, cents=cents))
    publish_many([("stock.in", {"sku": n, "place": "ab"[n % 2]}) for n in range(4)])
    publish("cart.left", key="c")
    run_subscriptions()

    said = capsys.readouterr().out.splitlines()
    assert sorted(said) == [
        "booking 10000 attempt 1",
        "booking 500 attempt 1",
        "counting cart.left c",
        "counting order.paid 10000",
        "counting order.paid 500",
        "indexing [0, 2]",
        "indexing [1, 3]",
        "thanks for 10000",
        "welcome Ada",
    ]
    names = set(Subscription.objects.values_list("name", flat=True))
    assert names == {*(f"example.{each}" for each in ("send_thanks", "count", "book", "reindex")),
                     "nearby", "old and new users"}  # fmt: skip


def test_what_is_published_later_and_together_is(subscribed: ModuleType) -> None:
    code = example("publishing-later.md")
    exec(compile(code, "publishing-later.md", "exec"), subscribed.__dict__)  # noqa: S102

    assert [each.payload["path"] for each in read()] == ["/", "/about"]
    assert History.objects.get().outcome == Outcome.CANCELLED


def test_what_the_guide_receives_is_handled_once(subscribed: ModuleType, tmp_path: Path) -> None:
    said: list[str] = []
    # print() writes a line in pieces, and several threads print.
    subscribed.print = lambda *words: said.append(" ".join(map(str, words)))  # type: ignore[attr-defined]
    _, _, text = (GUIDE / "inbox.md").read_text().partition("## Receiving")
    receiving, reading, views = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    exec(compile(receiving + reading, "inbox.md", "exec"), subscribed.__dict__)  # noqa: S102
    run_subscriptions()
    broker = Redis(tmp_path)
    broker.start()
    try:
        with broker.connect() as client, patch.dict("os.environ", REDIS_URL=broker.url):
            client.xadd("orders:eu", {"order": 6})
            client.xgroup_create("orders:eu", "shop", id="0")
            # A reader that died before it acknowledged the entry.
            client.xreadgroup("shop", "one", {"orders:eu": ">"})
            client.xadd("orders:eu", {"order": 9})
            for _ in range(2):
                for order in (7, 8):
                    message = {"id": f"m-{order}", "body": {"order": order}}
                    subscribed.on_message(message)
                    subscribed.on_event(message)
                    subscribed.here_and_now(message)
                subscribed.read_stream("orders:eu", name="one")
                run_subscriptions()
    finally:
        broker.stop()

    assert sorted(said) == [
        *("booking 6", "booking 7", "booking 8", "booking 9"),
        *("counting 7", "counting 8"),
    ]
    assert len(read(topics="stock.reserved")) == 2
    with override_settings(SHOP_SECRET="a" * 32, ERP_SECRET="b" * 32):
        exec(compile(views, "inbox.md", "exec"), subscribed.__dict__)  # noqa: S102
    assert [str(each.pattern) for each in subscribed.urlpatterns] == ["hooks/shop", "hooks/erp"]


def test_the_relays_of_the_guide_hand_on_and_give_up_as_it_says(
    subscribed: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    _, _, text = (GUIDE / "relay.md").read_text().partition("## A relay")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", text.partition("\n## ")[0], re.M | re.S))
    exec(compile(code, "relay.md", "exec"), subscribed.__dict__)  # noqa: S102
    run_subscriptions()
    publish("order.paid", key="order:7")
    publish("report.made", "x" * 1_000_001)
    run_subscriptions()

    assert capsys.readouterr().out.splitlines() == ["1 order.paid order:7"]
    dead = Message.objects.get()
    assert (dead.channel, dead.state, dead.failures) == ("reports", State.DEAD, 1)


def test_the_code_that_moves_from_an_outbox_publishes_and_listens(
    subscribed: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (GUIDE.parent / "from-outbox.md").read_text()
    storing, listening = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    [sql] = re.findall(r"^```sql\n(.*?)^```", page, re.M | re.S)
    vars(subscribed)["send"] = lambda *told, id: print(*told, id)
    exec(compile(listening, "from-outbox.md", "exec"), subscribed.__dict__)  # noqa: S102
    run_subscriptions()
    exec(compile(storing, "from-outbox.md", "exec"), subscribed.__dict__)  # noqa: S102
    with connection.cursor() as cursor:
        cursor.execute(sql)
    subscribed.AggregateMessage(
        id="m-1",
        aggregate_type="payment",
        aggregate_id="1",
        message_type="payment_made",
        payload={"order": 7},
    ).receive()
    run_subscriptions()

    first, second, paid = sorted(capsys.readouterr().out.splitlines())
    assert first.startswith("order.order_placed {'total': 120} ")
    assert {UUID(first.split()[-1]).version, second} == {
        4,
        f"order.order_placed {{'total': 120}} log {read()[1].position}",
    }
    assert paid == "paid: 7"
    assert [each.key for each in read()] == ["customer 3", "customer 3", "1"]


def test_the_webhooks_of_the_guide_post_what_it_says(
    subscribed: ModuleType, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serializers, "_declared", {})
    text = (GUIDE / "webhooks.md").read_text()
    _, _, of_settings = text.partition("## Settings")
    (given,) = re.findall(r"^```python\n(.*?)^```", of_settings, re.M | re.S)
    exec(given, subscribed.__dict__)  # noqa: S102
    own = {**subscribed.PGQUEUE["WEBHOOKS"], "ALLOW_PRIVATE": True}

    with receiving() as receiver, override_settings(PGQUEUE={"WEBHOOKS": own}):
        made, operated = (
            "\n".join(re.findall(r"^```python\n(.*?)^```", part, re.M | re.S)).replace(
                "https://example.com/hooks", receiver.url
            )
            for part in text.partition("## Settings")[0].split("## What becomes of an answer")
        )
        made = made.replace("https://example.com/csv", receiver.url)
        exec(compile(made, "webhooks.md", "exec"), subscribed.__dict__)  # noqa: S102
        publish("order.paid", {"order": 8, "total": 1})
        run_subscriptions()
        exec(compile(operated, "webhooks.md", "exec"), subscribed.__dict__)  # noqa: S102

    assert capsys.readouterr().out == "whsec_\n"
    standard, csv = sorted(receiver.posts, key=lambda post: post.headers["content-type"])
    posted = json.loads(standard.body)
    said = json.loads(re.findall(r"^    (\{.*?\})\n\n", text, re.M | re.S)[0])
    assert posted.keys() == said.keys()
    assert {**posted, "timestamp": "", "position": 0} == {**said, "timestamp": "", "position": 0}
    assert csv.headers["content-type"] == "text/csv"
    assert csv.body.endswith(b",8\n")
    assert not Webhook.objects.filter(name="shop").exists()


@pytest.mark.usefixtures("django_db_setup")
def test_the_tests_of_the_guide_pass(
    request: pytest.FixtureRequest,
    own_tasks: None,
    monkeypatch: pytest.MonkeyPatch,
    django_db_blocker: DjangoDbBlocker,
) -> None:
    module = ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", module)
    autodiscover_modules("tasks", "events")  # what these declare is not the guide's
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    exec(compile(example("testing.md"), "testing.md", "exec"), module.__dict__)  # noqa: S102

    result = unittest.TestResult()
    with django_db_blocker.unblock():
        unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    [function] = [each for name, each in vars(module).items() if name.startswith("test_")]
    request.getfixturevalue("db")
    mail.outbox.clear()
    function(**{name: request.getfixturevalue(name) for name in signature(function).parameters})

    assert (result.errors, result.failures, result.testsRun) == ([], [], 9)


@pytest.mark.django_db(transaction=True)
def test_the_table_of_the_example_publishes_what_it_says(
    own_tasks: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install_shop(monkeypatch)
    page = (GUIDE / "table-events.md").read_text()
    migration, usage, _, trail, _ = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    made: dict[str, Any] = {"__name__": "example"}
    exec(migration, made)  # noqa: S102
    exec(trail, made)  # noqa: S102
    state = ProjectState.from_apps(apps)
    (operation,) = made["Migration"].operations

    assert operations.NEEDED in made["Migration"].dependencies
    assert operations.NEEDED in MigrationLoader(connection).graph.nodes
    with connection.schema_editor() as editor:
        operation.database_forwards("shop", editor, state, state)
    try:
        exec(usage, {})  # noqa: S102
    finally:
        with connection.schema_editor() as editor:
            operation.database_backwards("shop", editor, state, state)

    promised = re.findall(r"^# (shop_order.*)$", usage, re.M)
    assert promised
    assert capsys.readouterr().out.splitlines() == promised


@pytest.mark.django_db
def test_the_views_of_the_browser_s_page_allow_whom_they_say() -> None:
    module: dict[str, Any] = {}
    exec(compile(example("sse.md"), "sse.md", "exec"), module)  # noqa: S102
    request = AsyncRequestFactory().get("/")
    request.user = User.objects.create_user("ada")

    assert [str(each.pattern) for each in module["urlpatterns"]] == [
        "events/",
        "my-events/",
        "messages/<int:id>/",
    ]
    assert not module["may_see"](request, Filter())
    assert module["own_orders"](request, Filter()) == Filter(where={"customer": request.user.pk})
    own, other = (
        StreamedMessage("1", "mail", "", f"user:{pk}", {})
        for pk in (request.user.pk, request.user.pk + 1)
    )
    assert module["may_see_message"](request, own)
    assert not module["may_see_message"](request, other)
