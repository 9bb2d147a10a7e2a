"""Holds, dedupe keys, order, expiry and full channels, as a task's caller meets them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from psycopg.rows import dict_row

from pgqueue.exceptions import ChannelFull, DuplicateMessage, HoldExpired, InvalidTask
from pgqueue.models import Channel, History, Message, Policy
from tests import jobs

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@pytest.fixture
def elsewhere() -> Iterator[psycopg.Connection[Any]]:
    """A connection that Django knows nothing of, and whose rows are not tuples."""
    parameters = connection.get_connection_params()
    for name in ("context", "cursor_factory", "prepare_threshold"):
        parameters.pop(name, None)
    with psycopg.connect(**parameters, row_factory=dict_row) as opened:
        yield opened


class TestAHold:
    def test_is_committed_in_another_transaction(self) -> None:
        result = jobs.add.hold(for_=60).enqueue(1)
        assert result.status == "held"

        with transaction.atomic():
            jobs.add.get_result(result.id).commit()

        result.refresh()
        assert result.status == "ready"

    def test_vanishes_with_a_commit_that_is_rolled_back(self) -> None:
        result = jobs.add.hold(for_=60).enqueue(1)

        with transaction.atomic():
            result.commit()
            transaction.set_rollback(True)

        result.refresh()
        assert result.status == "held"

    def test_is_abandoned(self) -> None:
        result = jobs.add.hold(for_=60).enqueue(1)

        result.abandon()

        result.refresh()
        assert result.status == "cancelled"

    def test_can_be_longer(self) -> None:
        result = jobs.add.hold(for_=1).enqueue(1)

        result.extend_hold(for_=MINUTE)

        message = Message.objects.get()
        assert message.lease_until is not None
        assert message.lease_until - message.created_at > timedelta(seconds=50)

    @pytest.mark.parametrize("wrong", [0, -60, timedelta(), 10**12, float("nan"), "60", True])
    def test_is_not_extended_by_what_is_no_time_from_now(self, wrong: Any) -> None:
        result = jobs.add.hold(for_=60).enqueue(1)

        with transaction.atomic():
            with pytest.raises(ValueError, match="for_="):
                result.extend_hold(for_=wrong)
            assert Message.objects.get().state == "held"

        result.commit()

    @pytest.mark.parametrize("verb", ["commit", "abandon", "extend_hold"])
    def test_that_is_over_is_an_error(self, verb: str) -> None:
        result = jobs.add.hold(for_=60).enqueue(1)
        result.commit()
        arguments = {"for_": 1} if verb == "extend_hold" else {}

        with pytest.raises(HoldExpired, match=f"#{result.id} .*is held no more"):
            getattr(result, verb)(**arguments)

    def test_is_committed_from_async_code(self) -> None:
        async def hold_and_commit() -> str:
            result = await jobs.add.hold(for_=60).aenqueue(1)
            await result.aextend_hold(for_=60)
            await result.acommit()
            await result.arefresh()
            return result.status

        assert async_to_sync(hold_and_commit)() == "ready"

    def test_is_of_many_too(self) -> None:
        results = jobs.add.hold(for_=60).enqueue_many([(1,), (2,)])

        assert {result.status for result in results} == {"held"}

    @pytest.mark.parametrize("for_", [0, -1, "soon"])
    def test_has_some_length(self, for_: Any) -> None:
        with pytest.raises(InvalidTask, match="hold_for"):
            jobs.add.hold(for_=for_)


class TestADedupeKey:
    def test_returns_the_message_that_is_there(self) -> None:
        once = jobs.add.using(dedupe_key="k")
        first = once.enqueue(1)

        second = once.enqueue(2)

        assert (second.id, second.came_of, first.came_of) == (first.id, "existing", "stored")
        assert Message.objects.get().payload["args"] == [1]

    def test_tells_where_the_existing_one_is(self) -> None:
        once = jobs.add.using(dedupe_key="k")
        once.hold(for_=60).enqueue(1)

        assert once.enqueue(2).status == "held"

    def test_replaces_what_waits(self) -> None:
        debounced = jobs.add.using(dedupe_key="k", on_conflict="replace")
        first = debounced.enqueue(1)

        second = debounced.enqueue(2)

        assert (second.id, second.came_of) == (first.id, "replaced")
        assert Message.objects.get().payload["args"] == [2]

    def test_raises_where_it_is_to(self) -> None:
        strict = jobs.add.using(dedupe_key="k", on_conflict="raise")
        first = strict.enqueue(1)

        with pytest.raises(DuplicateMessage, match=f"Message {first.id} has"):
            strict.enqueue(2)

    def test_that_is_taken_undoes_all_of_many_where_it_raises(self) -> None:
        strict = jobs.add.using(dedupe_key=lambda a: str(a), on_conflict="raise")
        strict.enqueue(2)

        with pytest.raises(DuplicateMessage):
            strict.enqueue_many([(1,), (2,), (3,)])

        assert Message.objects.count() == 1

    def test_may_be_a_function_of_the_call(self) -> None:
        by_argument = jobs.add.using(dedupe_key=lambda a: f"add {a}" if a else None)

        results = by_argument.enqueue_many([(1,), (1,), (0,), (0,)])

        assert [result.came_of for result in results] == ["stored", "existing", "stored", "stored"]
        assert Message.objects.filter(dedupe_key="add 1").count() == 1

    @pytest.mark.parametrize("key", ["", 5, "x" * 1001])
    def test_that_cant_be_is_refused(self, key: Any) -> None:
        with pytest.raises(InvalidTask, match="dedupe_key"):
            jobs.add.using(dedupe_key=key)

    def test_of_a_function_that_cant_be_is_refused(self) -> None:
        with pytest.raises(InvalidTask, match="The dedupe_key 5 of tests.jobs.add"):
            jobs.add.using(dedupe_key=lambda a: 5).enqueue(1)  # type: ignore[arg-type,return-value]

    def test_is_remembered(self) -> None:
        inbox = jobs.add.using(dedupe_key="k", dedupe_for=MINUTE)
        first = inbox.enqueue(1)
        first.cancel()

        second = inbox.enqueue(1)

        assert (second.id, second.came_of, second.status) == (first.id, "existing", "cancelled")

    def test_is_not_both_replaced_and_remembered(self) -> None:
        with pytest.raises(InvalidTask, match="Choose one"):
            jobs.add.using(dedupe_key="k", dedupe_for=60, on_conflict="replace")

    @pytest.mark.parametrize("how", ["ignore", None])
    def test_has_four_ways_to_meet_another(self, how: Any) -> None:
        with pytest.raises(InvalidTask, match="'return', 'replace', 'collect', 'raise'"):
            jobs.add.using(on_conflict=how)

    def test_is_asked_about_when_the_transaction_commits(self) -> None:
        first = jobs.add.using(dedupe_key="k").enqueue(1)
        with transaction.atomic():
            late = jobs.add.using(dedupe_key="k", enqueue_on_commit=True).enqueue(2)

        assert (late.id, late.came_of) == (first.id, "existing")


class TestOrder:
    def test_is_kept_by_a_batch(self) -> None:
        results = jobs.add.using(key="a", ordered=True).enqueue_many([(n,) for n in range(30)])

        ids = [int(result.id) for result in results]
        assert ids == sorted(ids)
        assert Message.objects.filter(ordered=True, governed=True).count() == 30

    def test_is_that_of_the_commits_where_they_enqueue_on_commit(self) -> None:
        ordered = jobs.add.using(key="a", ordered=True)
        with transaction.atomic():
            late = ordered.using(enqueue_on_commit=True).enqueue(1)
            early = ordered.enqueue(2)
            assert late.id == ""

        assert int(early.id) < int(late.id)

    def test_may_be_of_500_keys_in_one_call(self) -> None:
        ordered = jobs.add.using(key=lambda a: str(a), ordered=True)

        with pytest.raises(InvalidTask, match="500 different keys"):
            ordered.enqueue_many([(n,) for n in range(501)])

        assert len(ordered.enqueue_many([(n % 500,) for n in range(1000)])) == 1000
        assert Message.objects.count() == 1000


class TestExpiry:
    def test_is_after_a_time(self) -> None:
        jobs.add.using(ttl=MINUTE).enqueue(1)

        message = Message.objects.get()
        assert message.expires_at - message.created_at == MINUTE

    def test_is_at_a_time(self) -> None:
        moment = datetime(2100, 1, 1, tzinfo=UTC)
        jobs.add.using(expires_at=moment).enqueue_many([(1,), (2,)])

        assert {each.expires_at for each in Message.objects.all()} == {moment}

    @pytest.mark.parametrize(
        "wrong",
        [{"expires_at": datetime(2100, 1, 1)}, {"expires_at": 5}, {"ttl": 0}, {"ttl": "x"}],
    )
    def test_that_cant_be_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidTask, match=next(iter(wrong))):
            jobs.add.using(**wrong)


class TestAFullChannel:
    def test_is_an_error_that_leaves_the_transaction_whole(self) -> None:
        Policy.objects.create(channel="default", scope="channel", max_size=1)
        with transaction.atomic():
            first = jobs.add.enqueue(1)
            with pytest.raises(ChannelFull):
                jobs.add.enqueue(2)

        assert [str(each.pk) for each in Message.objects.all()] == [first.id]

    def test_drops_where_it_is_to(self) -> None:
        Policy.objects.create(channel="default", scope="channel", max_size=1)
        Channel.objects.create(name="default", on_full="drop")

        results = [jobs.add.enqueue(1), jobs.add.enqueue(2), *jobs.add.enqueue_many([(3,), (4,)])]

        assert [result.came_of for result in results] == ["stored", *["dropped"] * 3]
        assert [bool(result.id) for result in results] == [True, False, False, False]


class TestCancelling:
    def test_ends_what_waits(self) -> None:
        result = jobs.add.enqueue(1)

        assert result.cancel() is True

        result.refresh()
        assert (result.status, result.cancel()) == ("cancelled", False)

    def test_is_done_from_async_code(self) -> None:
        result = jobs.add.enqueue(1)

        assert async_to_sync(result.acancel)()

    def test_vanishes_with_its_transaction(self) -> None:
        result = jobs.add.enqueue(1)
        with transaction.atomic():
            result.cancel()
            transaction.set_rollback(True)

        assert not History.objects.exists()


class TestAnyConnection:
    def test_of_psycopg_has_the_message_in_its_transaction(
        self, elsewhere: psycopg.Connection[Any]
    ) -> None:
        result = jobs.add.using(connection=elsewhere).enqueue(1)
        assert not Message.objects.exists()

        elsewhere.commit()

        assert str(Message.objects.get().pk) == result.id

    def test_takes_many_and_rolls_them_back(self, elsewhere: psycopg.Connection[Any]) -> None:
        results = jobs.add.using(connection=elsewhere).enqueue_many([(1,), (2,), (3,)])
        elsewhere.rollback()

        assert len({result.id for result in results}) == 3
        assert not Message.objects.exists()

    def test_takes_all_options(self, elsewhere: psycopg.Connection[Any]) -> None:
        once = jobs.add.using(connection=elsewhere, dedupe_key="k", ordered=True, ttl=60)

        results = once.enqueue_many([(1,), (2,)])
        elsewhere.commit()

        assert [result.came_of for result in results] == ["stored", "existing"]

    def test_is_not_waited_for(self, elsewhere: psycopg.Connection[Any]) -> None:
        with pytest.raises(InvalidTask, match="enqueue_on_commit"):
            jobs.add.using(connection=elsewhere, enqueue_on_commit=True)

    def test_is_one_of_psycopgs(self) -> None:
        with pytest.raises(InvalidTask, match="connection"):
            jobs.add.using(connection=connection)  # type: ignore[arg-type]
