"""Notices of what happens to messages: exactly these, and only for channels that are watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from itertools import islice
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.core.management import call_command
from django.db import connections, transaction

from pgqueue import Notice, watch
from pgqueue.database.connections import connect as open_connection
from pgqueue.engine import cancel, dead, expire, held, lease, notifications, promote, settle
from pgqueue.engine.settle import Deferral, Finish
from pgqueue.engine.values import Claim
from pgqueue.exceptions import ChannelNotWatched, NothingToHear
from pgqueue.models import Channel, Message, Waiter
from pgqueue.tasks import watching
from tests import jobs
from tests.eventually import eventually
from tests.factories import OVER, Connection, Listening, claim, done, enqueue, failure

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
Told = tuple[str, str | None]

CREATED: Told = ("created", None)
STARTED: Told = ("started", None)
DEFERRED: Told = ("deferred", None)
REPLAYED: Told = ("replayed", None)


@pytest.fixture
def connection() -> Iterator[Connection]:
    """A connection such as a worker's."""
    with open_connection("default", name="test") as connection:
        yield connection


@pytest.fixture
def told(connection: Connection) -> Iterator[Callable[[], list[Told]]]:
    """A function that returns what was told of the channel `default` since it was last asked."""
    Channel.objects.create(name="default", watched=True)
    with open_connection("default", name="listening") as own:
        listening = Listening(own, notifications.listen_for_notices)

        def told() -> list[Told]:
            notices = [json.loads(text) for text in listening.heard()]
            assert {notice["channel"] for notice in notices} <= {"default"}
            return [(notice["event"], notice["outcome"]) for notice in notices]

        yield told


def drain() -> None:
    call_command("runworker", "--drain")


def run(connection: Connection, **options: Any) -> Claim:
    enqueue(connection, **options)
    (held,) = claim(connection)
    return held


class TestAWorkerTells:
    def test_of_a_task_that_returns(self, told: Any) -> None:
        jobs.add.enqueue(1)

        drain()

        assert told() == [CREATED, STARTED, ("ended", "succeeded")]

    def test_of_retries(self, told: Any) -> None:
        jobs.fail_twice.enqueue()

        drain()

        again = [STARTED, ("deferred", "failed")]
        assert told() == [CREATED, *again, *again, STARTED, ("ended", "succeeded")]

    def test_of_retries_after_a_while(self, told: Any) -> None:
        jobs.fail_twice.using(backoff=[0.05]).enqueue()

        drain()

        again = [STARTED, ("deferred", "failed")]
        assert told() == [CREATED, *again, *again, STARTED, ("ended", "succeeded")]

    def test_of_death_and_replay(self, told: Any) -> None:
        jobs.fail.using(max_attempts=1).enqueue("for ever")
        drain()
        Message.objects.dead().replay()

        drain()

        died = [STARTED, ("ended", "dead")]
        assert told() == [CREATED, *died, REPLAYED, *died]

    def test_of_what_it_hands_back(self, told: Any) -> None:
        jobs.add.enqueue(1)
        Message.objects.update(task="shop.tasks.of_tomorrow")

        drain()

        assert told() == [CREATED, STARTED, DEFERRED]

    @pytest.mark.parametrize(
        ("end", "outcome"), [("return", "succeeded"), ("raise", "dead"), ("late", "succeeded")]
    )
    def test_of_an_atomic_task_once(self, told: Any, end: str, outcome: str) -> None:
        jobs.leave_atomically.enqueue("effect", end)

        drain()

        assert told() == [CREATED, STARTED, ("ended", outcome)]

    def test_of_governed_messages(self, told: Any, connection: Connection) -> None:
        enqueue(
            connection, ordered=True, key="k", task="tests.jobs.add", payloads=['{"args": [1]}']
        )

        drain()

        assert told() == [CREATED, STARTED, ("ended", "succeeded")]


class TestAVerbTells:
    def test_of_each_message_of_a_copy(self, told: Any) -> None:
        jobs.add.enqueue_many([(1,), (2,), (3,)])

        assert told() == [CREATED] * 3

    def test_nothing_of_a_transaction_that_is_rolled_back(self, told: Any) -> None:
        with transaction.atomic():
            jobs.add.enqueue(1)
            transaction.set_rollback(True)

        assert told() == []

    @pytest.mark.parametrize("delay", [timedelta(), HOUR])
    def test_of_a_deferral(self, told: Any, connection: Connection, delay: timedelta) -> None:
        settle.defer(connection, [Deferral(run(connection), delay)])

        assert told() == [CREATED, STARTED, DEFERRED]

    def test_of_a_release(self, told: Any, connection: Connection) -> None:
        settle.release(connection, [run(connection)])

        assert told() == [CREATED, STARTED, DEFERRED]

    @pytest.mark.parametrize("outcome", ["discarded", "cancelled"])
    def test_of_what_its_task_ends(self, told: Any, connection: Connection, outcome: str) -> None:
        settle.finish(connection, [Finish(run(connection), outcome, None, 0)])

        assert told() == [CREATED, STARTED, ("ended", outcome)]

    @pytest.mark.parametrize(
        ("lost", "notice"),
        [(0, ("deferred", "lost")), (1, ("deferred", "lost")), (2, ("ended", "dead"))],
    )
    def test_of_a_rescue(self, told: Any, connection: Connection, lost: int, notice: Told) -> None:
        enqueue(connection)
        Message.objects.update(lost=lost)
        lease.begin(connection, claim(connection, lease=OVER))

        lease.rescue(connection, max_lost=3)

        assert told() == [CREATED, STARTED, notice]

    @pytest.mark.parametrize("is_due_later", [False, True])
    def test_of_a_cancellation(self, told: Any, connection: Connection, is_due_later: bool) -> None:
        ids = enqueue(connection, run_after=HOUR if is_due_later else None)

        cancel.cancel(connection, ids)

        assert told() == [CREATED, ("ended", "cancelled")]

    @pytest.mark.parametrize(
        ("verb", "outcome"),
        [
            (lambda c, held: settle.complete(c, [done(held)]), "succeeded"),
            (lambda c, held: settle.retry(c, [failure(held)]), "cancelled"),
            (lambda c, held: settle.bury(c, [failure(held)]), "cancelled"),
            (lambda c, held: settle.release(c, [held]), "cancelled"),
        ],
        ids=["complete", "retry", "bury", "release"],
    )
    def test_of_the_end_of_what_was_to_be_cancelled(
        self, told: Any, connection: Connection, verb: Any, outcome: str
    ) -> None:
        held = run(connection)
        cancel.cancel(connection, [held.id])

        verb(connection, held)

        assert told() == [CREATED, STARTED, ("ended", outcome)]

    def test_of_a_rescue_of_what_was_to_be_cancelled(
        self, told: Any, connection: Connection
    ) -> None:
        ids = enqueue(connection)
        claim(connection, lease=OVER)
        cancel.cancel(connection, ids)

        lease.rescue(connection, max_lost=3)

        assert told() == [CREATED, STARTED, ("ended", "cancelled")]

    def test_of_an_expiry(self, told: Any, connection: Connection) -> None:
        enqueue(connection, expires_after=OVER)

        expire.expire(connection)

        assert told() == [CREATED, ("ended", "expired")]

    @pytest.mark.parametrize(
        ("verb", "notices"),
        [(held.commit, []), (held.abandon, [("ended", "cancelled")])],
        ids=["commit", "abandon"],
    )
    def test_of_what_is_held(
        self, told: Any, connection: Connection, verb: Any, notices: list[Told]
    ) -> None:
        ids = enqueue(connection, held_for=HOUR)

        verb(connection, ids)

        assert told() == [CREATED, *notices]

    def test_of_dead_letters_that_are_discarded(self, told: Any, connection: Connection) -> None:
        held = run(connection)
        settle.bury(connection, [failure(held)])

        dead.discard(connection, [held.id])

        assert told() == [CREATED, STARTED, ("ended", "dead"), ("ended", "discarded")]

    def test_nothing_of_a_delay_that_is_over(self, told: Any, connection: Connection) -> None:
        ids = enqueue(connection, run_after=HOUR)

        promote.run_now(connection, ids)

        assert told() == [CREATED]

    def test_nothing_of_a_message_in_the_place_of_another(
        self, told: Any, connection: Connection
    ) -> None:
        once = "SELECT pgqueue_enqueue('tests.task', dedupe_key => 'k', replaces => %s)"

        for replaces in (False, True, True, False):
            connection.execute(once, [replaces])

        assert told() == [CREATED]


class TestAChannelThatIsNotWatched:
    def test_is_not_told_of(self, connection: Connection) -> None:
        Channel.objects.create(name="mail", watched=True)
        Channel.objects.create(name="default")
        listening = Listening(connection, notifications.listen_for_notices)
        jobs.add.enqueue_many([(1,), (2,)])
        jobs.fail.enqueue("dies")
        Message.objects.filter(task="tests.jobs.fail").update(priority=1)

        drain()
        Message.objects.dead().replay()
        Message.objects.all().cancel()

        assert listening.heard() == []

    @pytest.mark.parametrize("row", [None, False])
    def test_cannot_be_looped_over(self, row: bool | None) -> None:
        if row is not None:
            Channel.objects.create(name="mail", watched=row)

        with pytest.raises(ChannelNotWatched, match="Notices of the channel 'mail' are off"):
            next(iter(watch("mail")))

        eventually(lambda: not is_watching())


def is_watching(does: str = "true") -> bool:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "SELECT FROM pg_stat_activity WHERE application_name = 'pgqueue listener' "
            f"AND datname = current_database() AND {does}"
        )
        return bool(cursor.fetchall())


def backends(connection: Connection) -> int:
    """Return how many connections this process listens on."""
    (count,) = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name = 'pgqueue listener'"
    ).fetchone() or (0,)
    return int(count)


def is_listening() -> bool:
    return is_watching("query LIKE 'LISTEN%' AND state = 'idle'")


@pytest.fixture
def watched() -> None:
    for name in ("default", "mail"):
        Channel.objects.create(name=name, watched=True)


@pytest.mark.usefixtures("watched")
class TestAWatch:
    def test_yields_what_happens_from_then_on(self) -> None:
        jobs.add.enqueue(1)
        Message.objects.all().cancel()
        with watch("default") as notices:
            result = jobs.add.enqueue(1)

            drain()

            assert list(islice(notices, 3)) == [
                Notice("default", result.id, "created", None),
                Notice("default", result.id, "started", None),
                Notice("default", result.id, "ended", "succeeded"),
            ]

    def test_yields_nothing_of_other_channels(self) -> None:
        with watch("mail") as notices:
            jobs.add.enqueue(1)
            result = jobs.mail.enqueue("a@example.com")

            assert next(iter(notices)).id == result.id

    def test_hears_what_a_later_version_tells(self, connection: Connection) -> None:
        notice = {"channel": "default", "id": 7, "event": "moved", "outcome": None, "to": "mail"}
        with watch("default") as notices:
            connection.execute(
                "SELECT pg_notify(pgqueue_notifications_v1() || '_notices', %s)",
                [json.dumps(notice)],
            )

            heard = next(iter(notices))

        assert (heard.id, heard.event) == ("7", "moved")

    def test_goes_on_where_a_loop_was_left(self) -> None:
        with watch("default") as notices:
            results = [jobs.add.enqueue(n) for n in range(4)]

            first = [notice.id for notice in islice(notices, 1)]
            rest = [notice.id for notice in islice(notices, 3)]

        assert first + rest == [result.id for result in results]

    def test_ends_a_loop_once_it_is_closed_by_another_thread(self) -> None:
        notices, heard = watch("default"), []

        def loop() -> None:
            for notice in notices:
                heard.append(notice.id)

        with ThreadPoolExecutor(1) as threads, notices:
            looped = threads.submit(loop)
            result = jobs.add.enqueue(1)
            eventually(lambda: heard)

            notices.close()

            looped.result(10)
        assert heard == [result.id]

    def test_leaves_no_connection_behind(self) -> None:
        with watch("default"):
            assert is_watching()
        eventually(lambda: not is_watching())

        for _ in _loop_once():
            assert is_watching()
            break
        eventually(lambda: not is_watching())

    def test_shares_one_connection_with_all_others(self, connection: Connection) -> None:
        with ExitStack() as stack:
            mail = stack.enter_context(watch("mail"))
            slow, *others = [stack.enter_context(watch("default")) for _ in range(1000)]
            results = [jobs.add.enqueue(n) for n in range(3)]

            heard = [[notice.id for notice in islice(each, 3)] for each in others]

            ids = [result.id for result in results]
            assert heard == [ids] * 999
            assert backends(connection) == 1
            assert [notice.id for notice in islice(slow, 3)] == ids
            sent = jobs.mail.enqueue("a@example.com")
            assert next(iter(mail)).id == sent.id

    def test_yields_nothing_that_was_sent_before_it_was_opened(self) -> None:
        with watch("default") as earlier:
            jobs.add.enqueue(1, 2)
            with watch("default") as notices:
                second = jobs.add.enqueue(3, 4)

                assert next(iter(notices)).id == second.id
            assert len(list(islice(earlier, 2))) == 2

    def test_shares_its_connection_with_those_who_wait_for_results(
        self, connection: Connection
    ) -> None:
        result = jobs.add.enqueue(2, 3)
        with watch("default") as notices, ThreadPoolExecutor(1) as threads:
            waited = threads.submit(lambda: (result.wait(10), connections.close_all()))
            eventually(Waiter.objects.exists)
            assert backends(connection) == 1

            drain()

            waited.result(10)
            assert [notice.event for notice in islice(notices, 2)] == ["started", "ended"]
        assert result.return_value == 5

    def test_can_be_opened_again(self) -> None:
        notices = watch("default")
        for number in range(2):
            with notices:
                jobs.add.enqueue(number)
                assert next(iter(notices)).event == "created"

    def test_listens_again_when_its_connection_was_lost(self, connection: Connection) -> None:
        pids = (
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'pgqueue listener' "
            "AND datname = current_database() AND query NOT LIKE '%pg_backend_pid%'"
        )
        with watch("default") as notices:
            ((pid,),) = connection.execute(pids).fetchall()
            connection.execute("SELECT pg_terminate_backend(%s)", [pid])
            subscription = notices._subscription
            assert subscription
            listener = subscription.listener
            assert listener
            eventually(lambda: connection.execute(pids).fetchall() not in ([], [(pid,)]))
            eventually(lambda: listener.is_listening)
            result = jobs.add.enqueue(1)

            assert next(iter(notices)).id == result.id

    def test_is_refused_behind_a_transaction_pooler(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(watching, "is_pooled", lambda connection: True)

        with pytest.raises(NothingToHear, match="pooler"), watch("default"):
            pass

        eventually(lambda: not is_watching())

    def test_is_async_too(self) -> None:
        async def events() -> list[Told]:
            async with watch("default") as notices:
                await jobs.add.aenqueue(1)
                await sync_to_async(Message.objects.all().cancel)()
                heard: list[Told] = []
                async for notice in notices:
                    heard.append((notice.event, notice.outcome))
                    if notice.event == "ended":
                        return heard
            raise AssertionError("it ended by itself")

        assert async_to_sync(events)() == [CREATED, ("ended", "cancelled")]

    def test_that_is_async_may_be_given_up(self) -> None:
        async def given_up() -> str:
            async with watch("default") as notices:
                waits = asyncio.create_task(anext(aiter(notices)))
                await asyncio.sleep(0)
                waits.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waits
                await jobs.add.aenqueue(1)
                return (await anext(aiter(notices))).event

        assert async_to_sync(given_up)() == "created"
        eventually(lambda: not is_watching())


def _loop_once() -> Iterator[Notice]:
    notices = iter(watch("default"))
    with ThreadPoolExecutor(1) as threads:
        heard = threads.submit(next, notices)
        eventually(is_listening)
        jobs.add.enqueue(1)
        yield heard.result(10)
