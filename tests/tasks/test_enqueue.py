from __future__ import annotations

import asyncio
import inspect
import pickle
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject
from psycopg._copy import LibpqWriter

from pgqueue import Exponential, signals, task
from pgqueue.exceptions import (
    DuplicateMessage,
    InvalidArguments,
    InvalidTask,
    OtherTransactionWarning,
    TaskResultDoesNotExist,
    TaskResultMismatch,
    UnknownTask,
)
from pgqueue.models import Message
from pgqueue.states import State
from testproject.shop import tasks as shop
from tests import jobs


@pytest.mark.django_db
class TestAMessage:
    def test_is_a_row_with_what_the_task_and_the_call_say(self) -> None:
        result = jobs.mail.enqueue("a@example.com")

        message = Message.objects.get()
        assert result.id == str(message.pk)
        assert (message.task, message.channel, message.key) == ("tests.jobs.mail", "mail", "")
        assert message.payload == {"args": ["a@example.com"], "kwargs": {}}
        assert (message.priority, message.rank, message.max_attempts) == (5, -5, 2)
        assert message.metadata == {"from": "decorator"}
        assert (message.state, message.options, message.attempt) == (State.READY, None, 0)

    def test_takes_every_option_from_using(self) -> None:
        changed = jobs.mail.using(
            channel="fast",
            key="k",
            priority=-7,
            max_attempts=9,
            backoff=Exponential(base=1),
            timeout=2.5,
            hard_timeout=5,
            atomic=True,
            metadata={"from": "using"},
        )
        changed.enqueue("b@example.com")

        message = Message.objects.get()
        assert (message.channel, message.key, message.priority) == ("fast", "k", -7)
        assert (message.max_attempts, message.metadata) == (9, {"from": "using"})
        assert message.options == {
            "backoff": {"base": 1, "cap": 43_200, "jitter": 0.2},
            "timeout": 2.5,
            "hard_timeout": 5,
            "atomic": True,
        }

    def test_may_have_a_backoff_function_that_travels_by_its_name(self) -> None:
        jobs.add.using(backoff=jobs.give_up_on_value_errors).enqueue(1)

        assert Message.objects.get().options == {"backoff": "tests.jobs.give_up_on_value_errors"}

    def test_is_refused_a_backoff_that_could_not_travel(self) -> None:
        with pytest.raises(InvalidTask, match="can't be stored"):
            jobs.add.using(backoff=lambda error, result: 1).enqueue(1)

        assert not Message.objects.exists()

    def test_has_the_key_that_a_function_of_its_arguments_returns(self) -> None:
        jobs.keyed.enqueue(7)

        assert Message.objects.get().key == "tenant:7"

    @pytest.mark.parametrize(
        ("run_after", "state"),
        [
            (timedelta(hours=1), State.SCHEDULED),
            (3600, State.SCHEDULED),
            (datetime(2099, 1, 1, tzinfo=UTC), State.SCHEDULED),
            (datetime(1999, 1, 1, tzinfo=UTC), State.READY),
            (None, State.READY),
        ],
    )
    def test_is_scheduled_until_its_time_has_come(self, run_after: object, state: State) -> None:
        result = jobs.add.using(run_after=run_after).enqueue(1)

        assert result.status == Message.objects.get().state == state

    def test_is_stored_by_one_query_that_django_sees(self) -> None:
        jobs.add.enqueue(0)

        with CaptureQueriesContext(
            connection,
        ) as queries:
            jobs.add.enqueue(1)

        assert len(queries) == 1
        assert "pgqueue_enqueue" in queries[0]["sql"]

    def test_is_announced(self) -> None:
        heard = []
        signals.task_enqueued.connect(hear := lambda **kwargs: heard.append(kwargs["task_result"]))

        result = jobs.add.enqueue(1)

        signals.task_enqueued.disconnect(hear)
        assert heard == [result]

    @pytest.mark.parametrize("arguments", [(), (1, 2, 3), (object(),), (float("nan"),), ("\x00",)])
    def test_that_cannot_be_is_not_half_written(self, arguments: tuple[object, ...]) -> None:
        with pytest.raises(InvalidArguments, match=r"tests\.jobs\.add"):
            jobs.add.enqueue(*arguments)  # type: ignore[arg-type]

        assert not Message.objects.exists()

    def test_can_be_looked_up_by_its_task_only(self) -> None:
        result = jobs.add.enqueue(1, b=2)

        found = jobs.add.get_result(result.id)

        assert (found.id, found.args, found.kwargs) == (result.id, [1], {"b": 2})
        with pytest.raises(TaskResultMismatch):
            jobs.mail.get_result(result.id)
        for missing in ("0", "x", "-1", "99999999999999999999", "9" * 4301):
            with pytest.raises(TaskResultDoesNotExist):
                jobs.add.get_result(missing)


@pytest.mark.django_db
class TestManyMessages:
    def test_fail_as_djangos_do_where_a_pooler_answers_twice(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def finish(self: object, error: BaseException | None = None) -> None:
            raise ValueError("too many values to unpack (expected 1)")

        monkeypatch.setattr(LibpqWriter, "finish", finish)

        with pytest.raises(OperationalError, match="lost as rows were copied"):
            jobs.add.enqueue_many([(1,), (2,)])

    def test_are_stored_in_the_order_they_were_given(self) -> None:
        results = jobs.add.enqueue_many([(1,), [2, 3], {"a": 4}, (5,)])

        assert [result.args for result in results] == [(1,), [2, 3], (), (5,)]
        stored = Message.objects.order_by("pk").values_list("pk", "payload")
        assert [str(pk) for pk, _ in stored] == [result.id for result in results]
        assert [payload["args"] for _, payload in stored] == [[1], [2, 3], [], [5]]

    def test_may_be_given_as_calls_of_the_task(self) -> None:
        results = jobs.add.enqueue_many([jobs.add.call(1), jobs.add.call(2, b=3), (4,)])

        assert [(result.args, result.kwargs) for result in results] == [
            ((1,), {}),
            ((2,), {"b": 3}),
            ((4,), {}),
        ]

    @pytest.mark.parametrize("other", [jobs.double, jobs.add.using(priority=1)])
    def test_are_refused_as_calls_of_another_task_or_of_other_options(self, other: Any) -> None:
        with pytest.raises(InvalidArguments, match="enqueue_many.. of tests.jobs.add: one call is"):
            jobs.add.enqueue_many([other.call(1)])

        assert not Message.objects.exists()

    def test_are_copied_ten_thousand_at_a_time(self) -> None:
        with CaptureQueriesContext(connection) as queries:
            results = jobs.add.enqueue_many((number,) for number in range(10_001))

        copies = [query for query in queries if "COPY pgqueue_message" in query["sql"]]
        inserts = [query for query in queries if "pgqueue_enqueue_now_v1" in query["sql"]]
        assert (len(copies), len(inserts)) == (1, 1)
        assert len({result.id for result in results}) == Message.objects.count() == 10_001

    def test_may_ask_the_database_for_their_arguments(self) -> None:
        jobs.add.enqueue_many((number,) for number in range(3))

        asked = Message.objects.order_by("pk")
        results = jobs.add.enqueue_many((message.pk,) for message in asked.iterator(2))

        assert len(results) == 3
        assert [result.args for result in results] == [
            (message.pk,) for message in Message.objects.order_by("pk")[:3]
        ]

    def test_may_be_lazy_until_they_are_stored(self) -> None:
        group = Group.objects.create(name="lazy")

        jobs.add.enqueue_many(
            [(SimpleLazyObject(lambda: [Group.objects.get().pk]),), (2,)]  # type: ignore[list-item]
        )

        stored = Message.objects.order_by("pk").values_list("payload__args", flat=True)
        assert list(stored) == [[[group.pk]], [2]]

    def test_may_ask_the_database_for_their_keys(self) -> None:
        tasks = jobs.add.using(key=lambda _: str(Message.objects.count()))

        tasks.enqueue_many([(1,), (2,)])

        assert list(Message.objects.values_list("key", flat=True)) == ["0", "0"]

    @pytest.mark.django_db(transaction=True)
    def test_may_be_stored_as_their_transaction_commits(self) -> None:
        with transaction.atomic():
            results = jobs.add.using(enqueue_on_commit=True).enqueue_many([(1,), (2,)])
            before = Message.objects.count()

        assert before == 0
        assert sorted(str(pk) for pk in Message.objects.values_list("pk", flat=True)) == [
            result.id for result in results
        ]

    @pytest.mark.django_db(transaction=True)
    def test_are_stored_all_or_none_after_the_commit_too(self) -> None:
        jobs.add.using(dedupe_key="2").enqueue(0)
        late = jobs.add.using(dedupe_key=str, on_conflict="raise", enqueue_on_commit=True)

        with pytest.raises(DuplicateMessage), transaction.atomic():
            late.enqueue_many([(1,), (2,)])

        assert Message.objects.get().payload["args"] == [0]

    def test_are_stored_together_after_the_commit_however_many_they_are(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pgqueue.tasks.definition.BATCH", 1)

        with TestCase.captureOnCommitCallbacks(execute=True) as hooks:
            jobs.add.using(enqueue_on_commit=True).enqueue_many([(1,), (2,)])

        assert len(hooks) == 1
        assert Message.objects.count() == 2

    @pytest.mark.django_db(transaction=True)
    def test_raise_djangos_errors(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE pgqueue_message ADD CONSTRAINT odd CHECK (key <> 'odd')")
        try:
            with pytest.raises(IntegrityError):
                jobs.add.using(key="odd").enqueue_many([(1,), (2,)])
        finally:
            with connection.cursor() as cursor:
                cursor.execute("ALTER TABLE pgqueue_message DROP CONSTRAINT odd")

        assert not Message.objects.exists()

    def test_are_stored_all_or_none(self) -> None:
        calls = [(number,) for number in range(1500)] + [(object(),)]

        with pytest.raises(InvalidArguments):
            jobs.add.enqueue_many(calls)  # type: ignore[arg-type]

        assert not Message.objects.exists()
        jobs.add.enqueue(1)  # the caller's transaction is none the worse

    def test_may_be_none_at_all(self) -> None:
        assert jobs.add.enqueue_many([]) == []

    @pytest.mark.parametrize("call", ["ab", 7, None])
    def test_refuse_what_is_no_call(self, call: object) -> None:
        with pytest.raises(TypeError, match="neither a tuple"):
            jobs.add.enqueue_many([call])  # type: ignore[list-item]


class TestTransactions:
    @pytest.mark.django_db(transaction=True)
    def test_a_rollback_takes_the_message_with_it(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            jobs.add.enqueue(1)
            1 / 0  # noqa: B018

        assert not Message.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_a_savepoint_takes_only_what_came_after_it(self) -> None:
        with transaction.atomic():
            jobs.add.enqueue(1)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                jobs.add.enqueue(2)
                1 / 0  # noqa: B018

        assert Message.objects.get().payload["args"] == [1]

    @pytest.mark.django_db(transaction=True)
    def test_the_message_is_invisible_before_the_commit(self) -> None:
        other = connection.copy()

        def seen() -> int:
            with other.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM pgqueue_message")
                return int(cursor.fetchone()[0])

        with transaction.atomic():
            jobs.add.enqueue(1)
            before = seen()
        after = seen()
        other.close()

        assert (before, after) == (0, 1)

    @pytest.mark.django_db(transaction=True)
    def test_on_commit_the_message_gets_the_id_that_was_promised(self) -> None:
        with transaction.atomic():
            result = jobs.add.using(enqueue_on_commit=True).enqueue(1)
            assert not Message.objects.exists()

        assert str(Message.objects.get().pk) == result.id

    @pytest.mark.django_db(transaction=True)
    def test_on_rollback_nothing_is_enqueued_on_commit(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            jobs.add.using(enqueue_on_commit=True).enqueue_many([(1,), (2,)])
            1 / 0  # noqa: B018

        assert not Message.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_outside_a_transaction_on_commit_means_now(self) -> None:
        jobs.add.using(enqueue_on_commit=True).enqueue(1)

        assert Message.objects.count() == 1

    @pytest.mark.django_db(transaction=True)
    def test_async_code_enqueues_too(self) -> None:
        async def enqueue() -> list[str]:
            one = await jobs.add.aenqueue(1)
            many = await jobs.add.aenqueue_many([(2,), (3,)])
            found = await jobs.add.aget_result(one.id)
            await found.arefresh()
            return [found.id, *(each.id for each in many)]

        ids = async_to_sync(enqueue)()

        assert sorted(map(int, ids)) == sorted(Message.objects.values_list("pk", flat=True))


@pytest.mark.django_db(transaction=True, databases=["default", "second"])
class TestTwoDatabases:
    def test_a_task_may_name_the_other_one(self) -> None:
        result = jobs.add.using(database="second").enqueue(1)

        assert not Message.objects.exists()
        assert str(Message.objects.using("second").get().pk) == result.id
        assert jobs.add.using(database="second").get_result(result.id).status == State.READY

    def test_the_setting_may_name_the_other_one(self, settings: object) -> None:
        settings.PGQUEUE = {"DATABASE": "second"}  # type: ignore[attr-defined]

        jobs.add.enqueue(1)

        assert Message.objects.using("second").count() == 1

    def test_an_enqueue_beside_the_open_transaction_is_flagged(self) -> None:
        elsewhere = jobs.add.using(database="second")

        with transaction.atomic():
            with pytest.warns(OtherTransactionWarning, match="stays even if that rolls back"):
                elsewhere.enqueue(1)
            with pytest.warns(OtherTransactionWarning):
                elsewhere.enqueue_many([(1,)])

    def test_one_in_a_transaction_of_its_own_is_not(self) -> None:
        with transaction.atomic(), transaction.atomic(using="second"):
            jobs.add.using(database="second").enqueue(1)

    def test_on_commit_may_wait_for_the_other_transaction(self) -> None:
        waiting = jobs.add.using(database="second", enqueue_on_commit="default")

        with pytest.raises(ZeroDivisionError), transaction.atomic():
            waiting.enqueue(1)
            1 / 0  # noqa: B018
        with transaction.atomic():
            waiting.enqueue(2)
            assert not Message.objects.using("second").exists()

        assert Message.objects.using("second").get().payload["args"] == [2]

    def test_threads_of_the_test_leave_no_connection(self) -> None:
        assert {each.alias for each in connections.all()} == {"default", "second"}


class TestInATestCase(TestCase):
    def test_messages_are_seen_and_undone(self) -> None:
        jobs.add.enqueue(1)

        assert Message.objects.count() == 1

    def test_each_test_begins_without_them(self) -> None:
        assert not Message.objects.exists()

    def test_on_commit_hooks_can_be_captured(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as callbacks:
            jobs.add.using(enqueue_on_commit=True).enqueue(1)
            assert not Message.objects.exists()

        assert len(callbacks) == 1
        assert Message.objects.count() == 1


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"chanel": "x"}, "Did you mean 'channel'"),
            ({"channel": ""}, "must be a name"),
            ({"channel": "x" * 201}, "200 bytes"),
            ({"channel": "\x00"}, "NUL"),
            ({"key": 5}, "must be text"),
            ({"key": "ä" * 501}, "1000 bytes"),
            ({"priority": 101}, "-100 to 100"),
            ({"priority": 1.0}, "whole number"),
            ({"run_after": datetime(2030, 1, 1)}, "time zone"),
            ({"run_after": "soon"}, "neither seconds nor"),
            ({"run_after": datetime.max.replace(tzinfo=UTC)}, "two days within"),
            ({"expires_at": datetime.min.replace(tzinfo=UTC)}, "two days within"),
            ({"run_after": timedelta.max}, "a hundred years at most"),
            ({"run_after": datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))}, "9999"),
            ({"max_attempts": 0}, "1 or more"),
            ({"backoff": "soon"}, "no backoff"),
            ({"backoff": []}, "at least one"),
            ({"backoff": [-1]}, "must be from 0"),
            ({"timeout": 0}, "longer than 0"),
            ({"hard_timeout": 0}, "longer than 0"),
            ({"timeout": 5, "hard_timeout": 4}, "shorter than timeout=5"),
            ({"timeout": float("inf")}, "too long"),
            ({"metadata": {"a": object()}}, "not JSON serializable"),
            ({"metadata": {"a": "\x00"}}, "NUL"),
            ({"metadata": []}, "must be a dict"),
            ({"tags": "import"}, "must be a list"),
            ({"tags": [1]}, "must be text"),
            ({"tags": [""]}, "must not be empty"),
            ({"tags": ["x" * 101]}, "100 bytes"),
            ({"tags": ["\x00"]}, "NUL"),
            ({"tags": [str(number) for number in range(21)]}, "20 tags at most"),
            ({"tags": ["a"], "metadata": {"tags": []}}, "by the option, or in the metadata"),
            ({"atomic": 1}, "True, False or one of read committed"),
            ({"takes_context": True}, "belongs to the function"),
        ],
    )
    def test_that_cannot_be_are_refused_by_name(
        self, options: dict[str, object], message: str
    ) -> None:
        with pytest.raises(InvalidTask, match=message):
            jobs.add.using(**options)

    @pytest.mark.django_db
    def test_tags_are_stored_with_the_metadata(self) -> None:
        tagged = jobs.add.using(tags=["import", "nightly", "import"], metadata={"from": "here"})

        tagged.enqueue(1)
        tagged.using(tags=[]).enqueue(1)

        assert list(Message.objects.order_by("pk").values_list("metadata", flat=True)) == [
            {"from": "here", "tags": ["import", "nightly"]},
            {"from": "here"},
        ]

    @pytest.mark.django_db
    def test_that_are_stated_hold_though_they_equal_pgqueues_defaults(self, settings: Any) -> None:
        settings.PGQUEUE = {"MAX_ATTEMPTS": 9, "BACKOFF": [1]}

        jobs.add.using(max_attempts=20, backoff=Exponential()).enqueue(1)

        message = Message.objects.get()
        assert message.max_attempts == 20
        assert message.options == {"backoff": {"base": 2, "cap": 43_200, "jitter": 0.2}}

    def test_a_task_is_a_function_that_can_be_imported(self) -> None:
        def inner() -> None: ...

        for function in (inner, lambda: None, print, TestOptions):
            with pytest.raises(InvalidTask, match="top of a module"):
                task(function)  # type: ignore[call-overload]

    def test_using_changes_a_copy(self) -> None:
        changed = jobs.mail.using(queue_name="other")

        assert (changed.queue_name, jobs.mail.queue_name) == ("other", "mail")
        assert changed.name == jobs.mail.name

    def test_a_task_can_be_called_here_and_now(self) -> None:
        assert jobs.add(1, 2) == 3
        assert jobs.double.run_here(4) == 8


class TestATaskAsAFunction:
    def test_runs_the_function_and_stores_nothing(self) -> None:
        assert jobs.add(1, b=2) == jobs.add.func(1, 2) == 3
        assert jobs.mail.using(run_after=60)("a@example.com") is None

    def test_returns_the_coroutine_of_a_coroutine_function(self) -> None:
        coroutine = jobs.double(4)

        assert asyncio.iscoroutine(coroutine)
        assert asyncio.run(coroutine) == 8

    def test_gets_the_context_that_it_is_given(self) -> None:
        context = SimpleNamespace(attempt=3)

        assert jobs.attempt_number(context) == 3  # type: ignore[call-overload]

    def test_says_that_its_context_is_missing(self) -> None:
        with pytest.raises(InvalidArguments, match="attempt_number.*missing.*It takes a context"):
            jobs.attempt_number()

    def test_raises_what_the_function_raises(self) -> None:
        with pytest.raises(TypeError, match=r"add\(\) missing 1 required"):
            jobs.add()  # type: ignore[call-overload]

    def test_has_the_name_the_docstring_and_the_signature_of_the_function(self) -> None:
        for each in (shop.send_receipt, shop.send_receipt.using(priority=3)):
            assert (each.__name__, each.__qualname__) == ("send_receipt", "send_receipt")
            assert each.__module__ == "testproject.shop.tasks"
            assert (each.__doc__ or "").startswith("Mail the receipt")
            assert inspect.unwrap(each) is each.func
            assert str(inspect.signature(each)) == "(order_id: int) -> None"
        assert repr(shop.send_receipt) == "<Task testproject.shop.tasks.send_receipt>"

    def test_is_pickled_by_its_name(self) -> None:
        copy = pickle.loads(pickle.dumps(jobs.mail))  # noqa: S301

        assert copy is jobs.mail

    def test_is_pickled_with_the_options_that_using_changed(self) -> None:
        changed = jobs.mail.using(priority=-7, run_after=60, backoff=[1, 2])

        copy = pickle.loads(pickle.dumps(changed))  # noqa: S301

        assert (copy.func, copy.priority, copy.run_after) == (
            jobs.mail.func,
            -7,
            timedelta(seconds=60),
        )
        assert (copy.backoff, copy.channel) == (changed.backoff, "mail")

    def test_that_is_gone_says_so_when_it_is_unpickled(self) -> None:
        pickled = pickle.dumps(jobs.mail).replace(b"tests.jobs.mail", b"tests.jobs.male")

        with pytest.raises(UnknownTask, match=r"No task is named tests\.jobs\.male here"):
            pickle.loads(pickled)  # noqa: S301
