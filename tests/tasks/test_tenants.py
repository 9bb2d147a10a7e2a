"""What the functions of PGQUEUE["TENANT"] are asked, and what becomes of their answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError, connection, transaction
from django.db.backends.signals import connection_created
from django.test import override_settings

from pgqueue import (
    DurableContext,
    InvalidArguments,
    InvalidMessage,
    InvalidSchedule,
    InvalidStep,
    InvalidTask,
    InvalidTenant,
    MessageEnded,
    TenantUnavailable,
    checks,
    consumer,
    flow,
    models,
    publish,
    read,
    receive_external,
    send,
    signal,
    task,
)
from pgqueue.codec.arguments import Codec
from pgqueue.conf import read as read_settings
from pgqueue.database.paths import own_path
from pgqueue.database.session_state import sets_only_path
from pgqueue.events import consumers
from pgqueue.models import History, Message, StoredSignal
from pgqueue.options.schedules import Schedule
from pgqueue.signals import task_finished
from pgqueue.tasks import scheduling, tenants
from pgqueue.testing import replay, run_all
from tests import jobs

PATH = f"{__name__}.functions"
answers: dict[str, Any] = {}
entered: list[str] = []


@contextmanager
def _enter(tenant: str) -> Iterator[None]:
    if tenant == "away":
        raise OperationalError("the connection is lost")
    if tenant == "gone":
        raise LookupError("no such schema")
    entered.append(tenant)
    if tenant == "path":
        leave_the_path.func()
    before, answers["current"] = answers.get("current"), tenant
    try:
        yield
    finally:
        answers["current"] = before
        if tenant == "sticky":
            raise RuntimeError("cannot leave")


functions = SimpleNamespace(
    current=lambda: answers.get("current"), enter=_enter, all=lambda: answers["all"]
)
lacking = SimpleNamespace(current=lambda: None)


@task
def leave_the_path() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET search_path = pg_temp, public")


@task
def leave_the_path_and_fail() -> None:
    leave_the_path()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


@task
def echo(value: Any) -> None: ...


@task
def gather(items: list[str]) -> None: ...


@task(dedupe_key="once")
def once() -> None: ...


@task(durable=True)
def await_payment(run: DurableContext) -> None:
    run.wait_for("paid")


@task(durable=True)
def note_tenant(run: DurableContext) -> Any:
    return answers.get("current")


@pytest.fixture
def tenancy(transactional_db: None, settings: Any) -> None:
    settings.PGQUEUE = {**settings.PGQUEUE, "TENANT": PATH}
    answers.clear()
    entered.clear()


def stored() -> list[str | None]:
    rows = Message.objects.order_by("pk").values_list("metadata", flat=True)
    return [each.get("tenant") for each in rows]


def search_path() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SHOW search_path")
        return str(cursor.fetchone()[0])


def dedupe_keys() -> list[str | None]:
    return list(Message.objects.order_by("pk").values_list("dedupe_key", flat=True))


@pytest.mark.django_db
def test_without_the_setting_nothing_is_asked_and_metadata_are_the_producers_own() -> None:
    jobs.anything.using(metadata={"tenant": 7}).enqueue()

    assert tenants.carried("not even JSON") == "not even JSON"
    assert stored() == [7]
    [result] = run_all(raise_errors=True)
    assert result.metadata == {"tenant": 7}


@pytest.mark.usefixtures("tenancy")
class TestAMessage:
    def test_has_the_producers_tenant_however_it_is_stored(self) -> None:
        answers["current"] = "north"

        jobs.anything.enqueue()
        jobs.anything.enqueue_many([(), ()])
        send("raw", 1)

        assert stored() == ["north"] * 4

    def test_of_a_flow_is_enqueued_once_more_in_its_tenant(self) -> None:
        answers["current"] = "north"
        with flow("sums") as f:
            result = f.enqueue(jobs.anything, f.enqueue(jobs.add, 1, b=1))
        run_all(raise_errors=True)
        answers["current"] = None
        entered.clear()

        result.rerun()

        assert (entered, stored()) == (["north"], ["north"])

    @pytest.mark.parametrize("block", [nullcontext, transaction.atomic])
    def test_of_a_flow_is_enqueued_once_more_and_leaves_the_search_path_as_it_was(
        self, block: Callable[[], AbstractContextManager[None]]
    ) -> None:
        with flow("sums") as f:
            result = f.enqueue(jobs.anything, f.enqueue(jobs.add, 1, b=1))
        run_all(raise_errors=True)
        History.objects.update(metadata={"tenant": "path"})
        before = search_path()

        with block():
            result.rerun()

            assert (entered, search_path()) == (["path"], before)

    def test_of_a_flow_is_not_enqueued_once_more_if_its_tenant_is_gone(self) -> None:
        with flow("sums") as f:
            result = f.enqueue(jobs.anything, f.enqueue(jobs.add, 1, b=1))
        run_all(raise_errors=True)
        History.objects.update(metadata={"tenant": "gone"})

        with pytest.raises(InvalidArguments, match="no such schema"):
            result.rerun()

    def test_keeps_its_other_metadata(self) -> None:
        answers["current"] = "north"

        jobs.anything.using(metadata={"of": "mine"}).enqueue()

        assert Message.objects.get().metadata == {"of": "mine", "tenant": "north"}

    def test_may_name_another_tenant_or_none(self) -> None:
        answers["current"] = "north"

        jobs.anything.using(metadata={"tenant": "south"}).enqueue()
        jobs.anything.using(metadata={"tenant": None}).enqueue()
        answers["current"] = None
        run_all(raise_errors=True)

        assert entered == ["south"] * 2  # by the run, and by run_all() for its result

    @pytest.mark.parametrize("wrong", [7, "", "\x00", ["north"], "x" * 1001])
    def test_is_refused_if_the_tenant_has_no_name(self, wrong: Any) -> None:
        answers["current"] = wrong
        with pytest.raises(InvalidTenant, match=r"current\(\) returned .* as a tenant's name"):
            jobs.anything.enqueue()

        answers["current"] = None
        with pytest.raises(InvalidTenant, match="metadata"):
            jobs.anything.using(metadata={"tenant": 7}).enqueue()

    def test_whose_tenant_is_gone_fails_and_its_failure_is_still_announced(self) -> None:
        heard = []

        def hear(sender: Any, ending: Any, **kwargs: Any) -> None:
            heard.append(ending.error)

        answers["current"] = "gone"
        jobs.anything.using(max_attempts=2).enqueue()
        answers["current"] = None
        task_finished.connect(hear)
        try:
            run_all(retries=True)
        finally:
            task_finished.disconnect(hear)

        assert [type(each) for each in heard] == [TenantUnavailable] * 2
        assert "The tenant 'gone' cannot be entered: LookupError: no such schema" in str(heard[0])
        assert Message.objects.get().failures == 2

    def test_is_handed_back_uncharged_if_the_database_is_away(self) -> None:
        jobs.anything.using(metadata={"tenant": "away"}).enqueue()

        assert run_all() == []

        message = Message.objects.get()
        assert (message.state, message.failures) == ("scheduled", 0)

    def test_a_receiver_is_called_in_its_tenant(self) -> None:
        heard = []

        def hear(sender: Any, **kwargs: Any) -> None:
            heard.append(answers["current"])

        jobs.anything.using(metadata={"tenant": "north"}).enqueue()
        task_finished.connect(hear)
        try:
            run_all()
        finally:
            task_finished.disconnect(hear)

        assert heard == ["north"]

    def test_has_succeeded_although_its_tenant_cannot_be_left(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        jobs.anything.using(metadata={"tenant": "sticky"}).enqueue()

        [result] = run_all(raise_errors=True)

        assert result.status == "succeeded"
        assert "The tenant sticky cannot be left" in caplog.text


@pytest.mark.usefixtures("tenancy")
@pytest.mark.parametrize("block", [nullcontext, transaction.atomic])
def test_run_all_leaves_the_search_path_of_a_test_as_it_was(
    block: Callable[[], AbstractContextManager[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})
    handled = []
    before = search_path()

    @consumer("walkers", start="beginning")
    def walk(event: Any) -> None:
        leave_the_path()
        handled.append(event.payload)

    with block():
        leave_the_path.enqueue()
        leave_the_path_and_fail.enqueue()
        publish("noted", 1)
        run_all()
        assert search_path() == before

    assert search_path() == before
    assert handled == [1]


@pytest.mark.usefixtures("tenancy")
def test_run_all_reads_the_arguments_in_the_tenant_of_the_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read_in = []
    decode = Codec.decode

    def decode_here(self: Codec, *given: Any) -> Any:
        read_in.append(answers.get("current"))
        return decode(self, *given)

    monkeypatch.setattr(Codec, "decode", decode_here)
    echo.using(metadata={"tenant": "north"}).enqueue("x")

    [result] = run_all(raise_errors=True)

    assert list(result.args) == ["x"]
    assert set(read_in) == {"north"}


@pytest.mark.usefixtures("tenancy")
def test_a_replay_runs_in_the_tenant_of_the_message() -> None:
    result = note_tenant.using(metadata={"tenant": "north"}).enqueue()
    run_all(raise_errors=True)

    assert replay(result.id).value == "north"


@pytest.mark.usefixtures("tenancy")
def test_a_connection_that_a_run_opens_has_the_search_path_of_the_callers_tenant() -> None:
    def set_path(connection: Any, **kwargs: Any) -> None:
        if answers.get("current") == "north":
            with connection.cursor() as cursor:
                cursor.execute("SET search_path = public, pg_temp")

    connection_created.connect(set_path)
    try:
        answers["current"] = "north"
        connection.close()
        with own_path(), tenants.entered("path"):
            leave_the_path.func()

        assert search_path() == "public, pg_temp"
    finally:
        connection_created.disconnect(set_path)
        connection.close()


@pytest.mark.usefixtures("tenancy")
class TestADedupeKeyOfATenant:
    """Two tenants may use the same key: primary keys of their schemas are equal, for example."""

    def test_is_of_the_tenant_that_is_entered(self) -> None:
        digest = jobs.add.using(dedupe_key=lambda user_id: f"digest:{user_id}")
        for answers["current"] in ("north", "south"):
            assert [digest.enqueue(7).came_of for _ in range(2)] == ["stored", "existing"]

        assert dedupe_keys() == ["north:digest:7", "south:digest:7"]
        assert stored() == ["north", "south"]

    def test_is_of_the_tenant_that_the_metadata_name(self) -> None:
        answers["current"] = "north"

        once.using(metadata={"tenant": "south"}).enqueue()
        once.using(metadata={"tenant": None}).enqueue()
        send("raw", 1, dedupe_key="once", metadata={"tenant": "south"})
        send("raw", 1, dedupe_key="once")

        assert dedupe_keys() == ["south:once", "once", "south:once", "north:once"]

    def test_replaces_and_collects_what_the_same_tenant_has_stored(self) -> None:
        latest = echo.using(dedupe_key="latest", on_conflict="replace", run_after=60)
        basket = gather.using(dedupe_key="basket", on_conflict="collect", run_after=60)
        for answers["current"] in ("north", "south"):
            latest.enqueue(answers["current"])
            basket.enqueue([answers["current"]])
        basket.enqueue(["more"])

        assert [each.payload["args"] for each in Message.objects.order_by("pk")] == [
            *(["north"], [["north"]], ["south"], [["south", "more"]])
        ]

    def test_of_a_task_whose_schedule_is_for_each_tenant_is_of_each(self, settings: Any) -> None:
        entry = {"task": f"{__name__}.once", "when": 3600, "each_tenant": True, "overlap": "allow"}
        settings.PGQUEUE = {**settings.PGQUEUE, "SCHEDULES": {"s": entry}}
        models.Schedule.objects.create(
            name="s",
            task=f"{__name__}.once",
            every=timedelta(hours=1),
            overlap="allow",
            declared=True,
            definition="a digest",
        )
        answers["all"] = ["north", "south"]

        scheduling.run("s")

        assert stored() == ["north", "south"]

    def test_sends_a_signal_to_a_run_of_the_same_tenant(self) -> None:
        for answers["current"] in ("north", "south"):
            await_payment.using(dedupe_key="order:7").enqueue()
        answers["current"] = "south"

        signal(None, "paid", dedupe_key="order:7")
        answers["current"] = None
        with pytest.raises(MessageEnded):
            signal(None, "paid", dedupe_key="order:7")
        signal(None, "paid", dedupe_key="south:order:7")

        south = Message.objects.order_by("pk")[1]
        assert set(StoredSignal.objects.values_list("message_id", flat=True)) == {south.pk}

    def test_may_be_too_long_with_the_tenants_name(self) -> None:
        answers["current"] = "north"
        with pytest.raises(InvalidTask, match="The dedupe_key"):
            jobs.anything.using(dedupe_key="x" * 1000).enqueue()
        with pytest.raises(InvalidMessage, match="dedupe_key"):
            send("raw", 1, dedupe_key="x" * 1000)
        with pytest.raises(InvalidStep, match="dedupe_key='xxx.*1000 bytes"):
            signal(None, "paid", dedupe_key="x" * 1000)
        assert receive_external("x" * 799, source="s" * 200).is_new
        with pytest.raises(InvalidMessage, match="message_id='sss.*1000 bytes"):
            receive_external("x" * 799, echo, 1, source="s" * 200)
        assert receive_external("x" * 793, echo, 1, source="s" * 200).is_new

    def test_is_refused_if_the_tenant_has_no_name(self) -> None:
        answers["current"] = 7
        with pytest.raises(InvalidTenant):
            jobs.anything.using(dedupe_key="once").enqueue()

    def test_of_a_received_message_is_of_the_tenant_that_received_it(self) -> None:
        for answers["current"] in ("north", "south"):
            for to in (None, "noted", echo):
                id = f"7 for {to}"
                payload = None if to is None else 1
                assert receive_external(id, to, payload).is_new
                assert not receive_external(id, to, payload).is_new

    @pytest.mark.parametrize("to", ["noted", echo])
    def test_of_a_received_message_is_of_the_tenant_that_its_metadata_name(self, to: Any) -> None:
        # A batch of several tenants is handled in none, and each of its parts in its own.
        received = [
            receive_external("7", to, 1, metadata={"tenant": named}).is_new
            for answers["current"], named in ((None, "north"), ("north", "north"), (None, "south"))
        ]

        assert received == [True, False, True]


@pytest.mark.usefixtures("tenancy")
class TestEvents:
    def test_a_handler_is_called_in_the_tenant_of_the_publisher(self) -> None:
        handled = []
        one = consumer("one")(lambda event: handled.append(answers["current"]))
        many = consumer("many", batch=9)(lambda events: handled.append(answers["current"]))
        for answers["current"] in ("north", "south"):
            publish("noted", 1)
        answers["current"] = None
        events = list(read())

        one.handle(events)
        many.handle(events[:1])
        many.handle(events)

        assert [each.metadata["tenant"] for each in events] == ["north", "south"]
        assert handled == ["north", "south", "north", None]


class TestASchedule:
    def test_for_each_tenant_needs_the_setting(self) -> None:
        with pytest.raises(InvalidTenant, match="each_tenant needs"):
            tenants.every()

    @pytest.mark.usefixtures("tenancy")
    @pytest.mark.parametrize("wrong", ["north", 7, [None], [""]])
    def test_needs_names(self, wrong: Any) -> None:
        answers["all"] = wrong
        with pytest.raises(InvalidTenant, match=r"all\(\)"):
            tenants.every()

    @pytest.mark.usefixtures("tenancy")
    def test_of_a_name_that_comes_twice_has_one_message(self) -> None:
        answers["all"] = ["north", "south", "north"]
        assert tenants.every() == ["north", "south"]

    @pytest.mark.usefixtures("tenancy")
    def test_skips_a_tick_for_the_tenants_whose_message_lives(self, settings: Any) -> None:
        entry = {"task": "tests.jobs.anything", "when": 3600, "each_tenant": True}
        settings.PGQUEUE = {**settings.PGQUEUE, "SCHEDULES": {"s": entry}}
        models.Schedule.objects.create(
            name="s",
            task="tests.jobs.anything",
            every=timedelta(hours=1),
            overlap="skip",
            declared=True,
            definition="a digest",
        )
        for answers["all"] in (["north"], ["north", "south"]):
            result = scheduling.run("s")
            assert result.came_of == "stored"

        assert stored() == ["north", "south"]
        assert scheduling.run("s").came_of == "existing"
        answers["all"] = []
        with pytest.raises(InvalidSchedule, match="there are no tenants"):
            scheduling.run("s")

    @pytest.mark.usefixtures("tenancy")
    def test_that_is_run_in_a_tenant_has_the_message_of_its_ticks(self) -> None:
        models.Schedule.objects.create(
            name="s", task="tests.jobs.anything", every=timedelta(hours=1), overlap="skip"
        )

        came_of = [scheduling.run("s").came_of for answers["current"] in (None, "north")]

        assert came_of == ["stored", "existing"]
        assert (stored(), dedupe_keys()) == ([None], ["schedule:s"])

    @pytest.mark.usefixtures("tenancy")
    def test_that_is_run_in_a_tenant_has_the_tenant_of_its_task(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        models.Schedule.objects.create(
            name="s", task="tests.jobs.anything", every=timedelta(hours=1), overlap="allow"
        )
        answers["current"] = "north"
        scheduling.run("s")
        own = jobs.anything.using(metadata={"tenant": "south"})
        monkeypatch.setattr(scheduling, "known", lambda name: own)
        scheduling.run("s")

        assert stored() == [None, "south"]

    def test_its_digest_is_another_one_only_with_the_option(self) -> None:
        plain = scheduling._described(jobs.anything, Schedule(60))

        assert plain._replace(each_tenant=True).definition != plain.definition
        assert plain.definition == plain._replace(each_tenant=False).definition


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("no.such.module", "cannot be imported"),
        (f"{__name__}.missing", "cannot be imported"),
        (f"{__name__}.lacking", r"needs a function enter\(\)"),
    ],
)
def test_the_check_names_what_is_missing(path: str, said: str) -> None:
    with override_settings(PGQUEUE={"TENANT": path}):
        [error] = checks.check_tenants(None)

    assert error.id == "pgqueue.E012"
    assert path in error.msg
    assert re.search(said, error.msg)


@pytest.mark.parametrize("wrong", [7, "", "a b", "a..b"])
def test_the_setting_is_an_import_path(wrong: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="PGQUEUE\\['TENANT'\\]"):
        read_settings({"TENANT": wrong})


@pytest.mark.parametrize(
    ("text", "only"),
    [
        *[("SET search_path = a,b", True), ("set session search_path to a", True)],
        *[("RESET search_path", True), ("SELECT 1; SET search_path = a", True)],
        *[("SELECT set_config('search_path', %s, false)", True)],
        *[("SET search_path = a; SET ROLE b", False), ("SET ROLE b", False)],
        *[("SELECT set_config('search_path', 'a', false), set_config('b', 'c', false)", False)],
        *[("SET search_path_of_mine = a", False), ("DO $$ SET search_path = a $$", False)],
    ],
)
def test_a_path_is_told_from_other_changes_of_a_session(text: str, only: bool) -> None:
    assert sets_only_path(text) == only
