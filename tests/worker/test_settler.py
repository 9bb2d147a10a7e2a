"""How runs are settled while other sessions have their messages locked."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from psycopg import OperationalError
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded

from pgqueue import signals
from pgqueue.calls.outcomes import (
    Closed,
    Deferred,
    Died,
    Ending,
    HandedBack,
    Retried,
    Succeeded,
)
from pgqueue.claiming.registration import Registration
from pgqueue.claiming.run_counts import Tally
from pgqueue.database.connections import Session, connect
from pgqueue.engine import cancel, lease, settle
from pgqueue.engine.values import Claim
from pgqueue.engine.workers import WorkerInfo
from pgqueue.models import Breaker, Channel, History, Message
from pgqueue.states import State
from pgqueue.worker import settler as module
from pgqueue.worker import watchdog
from pgqueue.worker.heartbeat import Heartbeat
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.settler import BATCH, Settler
from pgqueue.worker.wakeups import Wakeups
from tests.eventually import eventually
from tests.factories import OVER, Connection, claim, failure, limit, refusing, run
from tests.hearing import heard

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)
OOPS = ValueError("oops")
SUCCEEDED = Succeeded('"result"')
FAILED = Retried(OOPS, '{"class": "Oops"}', timedelta())
DIED = Died(OOPS, '{"class": "Oops"}')
HANDED_BACK = HandedBack()
UNWRITABLE = Succeeded('"\\u0000"')  # jsonb takes no NUL
UNWRITABLE_FAILURE = Retried(OOPS, '{"class": "\\u0000"}', timedelta())

every_end = pytest.mark.parametrize(
    ("end", "left"),
    [(SUCCEEDED, None), (FAILED, "ready"), (DIED, "dead"), (HANDED_BACK, "ready")],
    ids=["succeeded", "failed", "died", "handed back"],
)


@pytest.fixture
def worker() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def operator() -> Iterator[Connection]:
    with closing(connect("default", name="test")) as connection:
        yield connection


@pytest.fixture
def leases() -> Leases:
    return Leases()


@pytest.fixture
def made_room() -> list[bool]:
    return []


@pytest.fixture
def let_others_go() -> list[bool]:
    return []


@pytest.fixture
def settler(leases: Leases, made_room: list[bool], let_others_go: list[bool]) -> Iterator[Settler]:
    session = Session("default", name="test")
    with closing(session):
        settler = Settler(
            session,
            leases,
            Tally(),
            Wakeups(
                Mock(
                    make_room=lambda: made_room.append(True),
                    wake=lambda: let_others_go.append(True),
                )
            ),
        )
        yield settler
        settler.stop()
        assert settler.stopped(timedelta(seconds=5))


@pytest.fixture
def lost() -> Iterator[list[Claim]]:
    with heard(signals.lease_lost, "claim") as lost:
        yield lost


@pytest.fixture
def leased(worker: Connection, leases: Leases) -> Callable[..., list[LeasedMessage]]:
    """A function that returns so many messages as this worker runs them."""

    def leased(count: int, **options: Any) -> list[LeasedMessage]:
        leased = [LeasedMessage(each, time.monotonic()) for each in run(worker, count, **options)]
        leases.add(leased)
        return leased

    return leased


def put(settler: Settler, *leased: LeasedMessage, end: Ending = SUCCEEDED) -> None:
    for each in leased:
        settler.put(each, end)


def heart(session: Session, leases: Leases, *, lease: timedelta) -> Heartbeat:
    info = WorkerInfo(
        host="here", pid=1, started_at=datetime.now(UTC), channels=None, excluded=[], info={}
    )
    registration = Registration(info, notify_for=lease)
    return Heartbeat(session, leases, registration, Tally(), lease=lease, every=lease)


@pytest.mark.parametrize("end", [SUCCEEDED, DIED, Closed(timedelta())])
def test_it_says_of_messages_of_flows_alone_that_others_may_go_on(
    settler: Settler,
    leased: Callable[..., list[LeasedMessage]],
    let_others_go: list[bool],
    end: Ending,
) -> None:
    alone, member = leased(2)
    member.claim = member.claim._replace(flow_id=7)
    settler.start()

    put(settler, alone, end=end)
    eventually(settler.is_done)
    assert let_others_go == []

    put(settler, member, end=end)
    eventually(lambda: let_others_go)


def test_a_beat_that_asked_the_database_nothing_is_no_sign_of_it(leases: Leases) -> None:
    with closing(Session("default", name="test")) as session:
        heartbeat = heart(session, leases, lease=timedelta(seconds=5))

        with heartbeat._registration._lock:  # as while another thread beats, and waits
            heartbeat.tick()
            before = heartbeat.silence
        heartbeat.tick()

    assert before is None
    assert heartbeat.silence is not None


def test_leases_are_renewed_though_the_workers_row_is_locked(
    worker: Connection,
    operator: Connection,
    leases: Leases,
    leased: Callable[..., list[LeasedMessage]],
) -> None:
    leased(1, lease=timedelta(seconds=5))
    with closing(Session("default", name="test")) as session:
        beating = heart(session, leases, lease=timedelta(hours=1))
        beating._registration.register(worker)
        with operator.transaction():
            operator.execute("SELECT FROM pgqueue_worker FOR UPDATE")
            before = time.monotonic()
            with pytest.raises(LockNotAvailable):
                beating.tick()
            took = time.monotonic() - before

    (left,) = worker.execute("SELECT lease_until - now() FROM pgqueue_message").fetchone() or ()
    assert left > timedelta(minutes=59)
    assert took < 4


def test_what_was_handed_back_is_never_buried(
    settler: Settler, leased: Callable[..., list[LeasedMessage]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even where the server's queue of notifications is full, which says the same."""
    put(settler, *leased(2), end=HANDED_BACK)
    with monkeypatch.context() as broken:
        broken.setattr(module, "write", Mock(side_effect=ProgramLimitExceeded))
        settler.tick()
        assert set(Message.objects.values_list("state", flat=True)) == {State.RUNNING}

    settler._try_refused_at = 0.0
    write_all(settler)

    assert set(Message.objects.values_list("state", flat=True)) == {State.READY}


def test_it_is_behind_where_the_database_is_slow_and_not_where_a_row_is_locked(
    settler: Settler, operator: Connection, leased: Callable[..., list[LeasedMessage]]
) -> None:
    [one] = leased(1)
    put(settler, one)
    queued = settler.is_behind
    with operator.transaction():
        cancel.cancel(operator, [one.claim.id])
        settler.tick()
        locked = (settler.is_behind, settler.is_done())

    assert queued
    assert locked == (False, False)


def test_a_heart_that_gets_no_answer_is_cut_before_its_leases_are_over(leases: Leases) -> None:
    beating = heart(Session("default", name="test"), leases, lease=timedelta(seconds=30))

    # A third of the lease until the beat that gets none, and then as long as the watchdog takes.
    assert 10 + beating.longest_step + watchdog.CUT_AFTER < 30


def test_a_heart_is_not_stuck_that_connects_to_one_address_after_another(
    leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session("default", name="test")
    beating = heart(session, leases, lease=timedelta(seconds=30))
    beating.longest_step = 0.01
    found: list[bool] = []

    def open_slowly() -> None:
        time.sleep(0.1)
        found.append(beating.is_stuck)
        raise OperationalError("at none of its addresses")

    monkeypatch.setattr(session, "open", open_slowly)
    beating.note_progress()
    with pytest.raises(OperationalError):
        beating.tick()

    assert found == [False]


def write_all(settler: Settler) -> None:
    def is_done() -> bool:
        settler.tick()
        return settler.is_done()

    eventually(is_done, what="not everything is written")


def endings() -> dict[int, str]:
    return dict(History.objects.values_list("id", "outcome"))


def states() -> dict[int, str]:
    return dict(Message.objects.values_list("id", "state"))


def test_large_results_are_written_a_few_at_a_time(
    settler: Settler, leased: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESULTS", 1000)
    put(settler, *leased(5), end=Succeeded(json.dumps("x" * 400)))

    written = []
    while not settler.is_done():
        settler.tick()
        written.append(len(endings()))

    assert written == [2, 4, 5]


def test_a_result_that_is_too_large_for_any_other_is_written_alone(
    settler: Settler, leased: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESULTS", 1000)
    put(settler, *leased(3), end=Succeeded(json.dumps("x" * 4000)))

    settler.tick()

    assert len(endings()) == 1


class TestBesideACancelThatIsOpen:
    def test_the_others_are_settled_at_once_and_it_goes_on_being_held(
        self, settler: Settler, leases: Leases, operator: Connection, leased: Any, lost: list[Claim]
    ) -> None:
        one, locked, two = leased(3)

        with operator.transaction():
            cancel.cancel(operator, [locked.claim.id])
            put(settler, one, locked, two)
            settler.tick()

            assert set(endings()) == {one.claim.id, two.claim.id}
            assert leases.all() == [locked]
            assert (settler.is_done(), lost) == (False, [])

    @every_end
    def test_it_is_cancelled_once_that_commits_unless_it_succeeded(
        self,
        settler: Settler,
        leases: Leases,
        operator: Connection,
        leased: Any,
        lost: list[Claim],
        end: Ending,
        left: str | None,
    ) -> None:
        locked, other = leased(2)

        with operator.transaction():
            cancel.cancel(operator, [locked.claim.id])
            put(settler, locked, end=end)
            put(settler, other)
            settler.tick()
        write_all(settler)

        ended = "cancelled" if left else "succeeded"
        assert endings() == {locked.claim.id: ended, other.claim.id: "succeeded"}
        assert (leases.all(), lost) == ([], [])

    @every_end
    def test_it_ends_as_it_ended_once_that_rolls_back(
        self,
        settler: Settler,
        operator: Connection,
        leased: Any,
        lost: list[Claim],
        end: Ending,
        left: str | None,
    ) -> None:
        (locked,) = leased(1)

        with operator.transaction(force_rollback=True):
            cancel.cancel(operator, [locked.claim.id])
            put(settler, locked, end=end)
            settler.tick()
        write_all(settler)

        assert (states() or {locked.claim.id: None}) == {locked.claim.id: left}
        assert "cancelled" not in endings().values()
        assert lost == []

    def test_its_lease_is_renewed_as_soon_as_that_is_over(
        self, settler: Settler, leases: Leases, operator: Connection, leased: Any
    ) -> None:
        (locked,) = leased(1, lease=timedelta(seconds=5))
        with closing(Session("default", name="test")) as session:
            heartbeat = heart(session, leases, lease=timedelta(hours=1))
            with operator.transaction(force_rollback=True):
                cancel.cancel(operator, [locked.claim.id])
                put(settler, locked)
                settler.tick()
                heartbeat.tick()

                assert not locked.lost
            heartbeat.tick()

        assert Message.objects.get().lease_until > datetime.now(UTC) + timedelta(minutes=50)

    def test_it_is_tried_again_after_a_nap_and_never_in_a_hot_loop(
        self, settler: Settler, operator: Connection, leased: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        minute = timedelta(minutes=1)
        monkeypatch.setattr(module, "BESIDE_A_LOCK", minute)
        locked = leased(BATCH + 100)

        with operator.transaction():
            cancel.cancel(operator, [each.claim.id for each in locked])
            put(settler, *locked)
            naps = [settler.tick() for _ in range(4)]

        assert [nap > module.GATHER for nap in naps] == [False, False, True, True]
        assert max(naps) < minute

    def test_what_ends_meanwhile_neither_waits_for_it_nor_for_its_nap(
        self,
        settler: Settler,
        operator: Connection,
        leased: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(module, "BESIDE_A_LOCK", timedelta(hours=1))
        *locked, later = leased(BATCH + 2)
        settler.start()

        with operator.transaction():
            cancel.cancel(operator, [each.claim.id for each in locked])
            put(settler, *locked)
            eventually(lambda: settler._is_idle, what="it does not nap")
            put(settler, later)
            eventually(endings, what="it was not settled")

            assert set(endings()) == {later.claim.id}

    def test_makes_no_room_where_all_are_locked(
        self, settler: Settler, operator: Connection, leased: Any, made_room: list[bool]
    ) -> None:
        (locked,) = leased(1)
        settler.tick()
        made_room.clear()  # by the new connection

        with operator.transaction():
            cancel.cancel(operator, [locked.claim.id])
            put(settler, locked)
            settler.tick()

        assert made_room == []
        write_all(settler)
        assert made_room == [True]


class TestBesideALockedBreaker:
    """A failure that is settled in a long transaction, as code that receives messages may do."""

    def test_other_endings_are_written_at_once_and_failures_after_that(
        self, settler: Settler, leases: Leases, operator: Connection, leased: Any
    ) -> None:
        [of_a], [of_b], [good] = (leased(1, key=key) for key in ("a", "b", "c"))
        [other] = run(operator, key="a")
        limit(scope="each", breaker_failures=9, breaker_within=MINUTE, breaker_pause=MINUTE)

        with operator.transaction():
            settle.retry(operator, [failure(other)])
            put(settler, of_a, of_b, end=FAILED)
            put(settler, good)
            settler.tick()

            assert endings() == {good.claim.id: "succeeded"}
            assert leases.all() == [of_a]
        write_all(settler)

        assert leases.all() == []
        assert states()[of_a.claim.id] == states()[of_b.claim.id] == "ready"
        assert {each.key: len(each.failed_at) for each in Breaker.objects.all()} == {"a": 2, "b": 1}

    def test_failures_of_a_locked_channel_keep_nothing_else_waiting(
        self, settler: Settler, leases: Leases, operator: Connection, leased: Any
    ) -> None:
        failed = [leased(1, key=str(key))[0] for key in range(20)]
        [other] = run(operator)
        limit(scope="channel", breaker_failures=9, breaker_within=MINUTE, breaker_pause=MINUTE)

        with operator.transaction():
            settle.retry(operator, [failure(other)])
            put(settler, *failed, end=DIED)
            since = time.monotonic()
            settler.tick()

            assert time.monotonic() - since < 5
            assert leases.all() == failed
        write_all(settler)

        assert set(states().values()) == {"dead", "ready"}

    @pytest.mark.parametrize("end", [UNWRITABLE, UNWRITABLE_FAILURE])
    def test_one_that_cannot_be_written_keeps_nothing_else_waiting(
        self, settler: Settler, leases: Leases, operator: Connection, leased: Any, end: Ending
    ) -> None:
        [bad], [failed], [good] = (leased(1, key=key) for key in ("a", "b", "c"))
        [other] = run(operator, key="a")
        limit(scope="each", breaker_failures=9, breaker_within=MINUTE, breaker_pause=MINUTE)

        with operator.transaction():
            settle.retry(operator, [failure(other)])
            put(settler, bad, end=end)
            put(settler, failed, end=FAILED)
            settler.tick()
            put(settler, good)
            settler.tick()

            assert endings() == {good.claim.id: "succeeded"}
            assert states()[failed.claim.id] == "ready"
            assert leases.all() == [bad]
        write_all(settler)

        assert states()[bad.claim.id] == "dead"


def test_an_ending_that_pauses_a_locked_channel_keeps_nothing_else_waiting(
    settler: Settler, leases: Leases, operator: Connection, leased: Any
) -> None:
    pausing, good = leased(2)
    Channel.objects.create(name="default")

    with operator.transaction():
        operator.execute("UPDATE pgqueue_channel SET on_full = on_full WHERE name = 'default'")
        put(settler, pausing, end=Deferred(MINUTE, None, pauses="channel"))
        put(settler, good)
        settler.tick()

        assert endings() == {good.claim.id: "succeeded"}
        assert leases.all() == [pausing]
    write_all(settler)

    assert states() == {pausing.claim.id: "scheduled"}
    assert Channel.objects.get().paused_until is not None


class TestWhatWasLost:
    def test_is_reported_and_let_go(
        self,
        settler: Settler,
        leases: Leases,
        worker: Connection,
        leased: Any,
        lost: list[Claim],
    ) -> None:
        gone, kept = leased(2, lease=OVER)
        lease.rescue(worker, max_lost=3, limit=1)

        put(settler, gone, kept)
        settler.tick()

        assert lost == [gone.claim]
        assert settler.leases_lost == 1
        assert (set(endings()), leases.all()) == ({kept.claim.id}, [])

    def test_is_counted_too_where_an_atomic_run_found_it_lost(
        self, settler: Settler, leased: Any
    ) -> None:
        [gone, given_up, settled] = leased(3)
        gone.lost = given_up.lost = given_up.given_up = True

        put(settler, gone, given_up, settled, end=Closed())

        assert settler.leases_lost == 1

    def test_while_another_session_had_it_locked_is_reported_then(
        self, settler: Settler, operator: Connection, leased: Any, lost: list[Claim]
    ) -> None:
        (gone,) = leased(1, lease=OVER)

        with operator.transaction():
            lease.rescue(operator, max_lost=3)
            put(settler, gone)
            settler.tick()
            meanwhile = list(lost)
        write_all(settler)

        assert (meanwhile, lost) == ([], [gone.claim])
        assert states() == {gone.claim.id: State.READY}

    @pytest.mark.parametrize("is_locked", [False, True], ids=["free", "locked"])
    @pytest.mark.parametrize("turned", [False, True], ids=["stale first", "fresh first"])
    def test_is_told_from_the_run_since_of_the_same_message(
        self,
        settler: Settler,
        leases: Leases,
        worker: Connection,
        operator: Connection,
        leased: Any,
        lost: list[Claim],
        is_locked: bool,
        turned: bool,
    ) -> None:
        (stale,) = leased(1, lease=OVER)
        lease.rescue(worker, max_lost=3)
        fresh = LeasedMessage(claim(worker)[0], time.monotonic())
        leases.add([fresh])

        with operator.transaction(force_rollback=True):
            if is_locked:
                cancel.cancel(operator, [fresh.claim.id])
            for each in [fresh, stale] if turned else [stale, fresh]:
                settler.put(each, Succeeded(str(each.claim.attempt)))
            settler.tick()
        write_all(settler)

        assert list(History.objects.values_list("attempt", "result")) == [(2, 2)]
        assert lost == [stale.claim]
        assert leases.all() == []


class TestABatchThatFailedHalfway:
    """What of it was written is neither written again nor taken for lost."""

    def once(self, error: Exception, verb: Callable[..., Any]) -> Callable[..., Any]:
        errors = [error]

        def first_fail(*arguments: Any, **options: Any) -> Any:
            if errors:
                raise errors.pop()
            return verb(*arguments, **options)

        return first_fail

    def test_in_one_of_the_statements(
        self,
        settler: Settler,
        leased: Any,
        lost: list[Claim],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        verb, of = module.VERBS[Retried]
        fails = self.once(OperationalError("cut off"), verb)
        monkeypatch.setitem(module.VERBS, Retried, (fails, of))
        one, two = leased(2)
        put(settler, one)
        put(settler, two, end=FAILED)

        with pytest.raises(OperationalError):
            settler.tick()
        assert not settler.is_done()
        write_all(settler)

        assert (endings(), states()) == ({one.claim.id: "succeeded"}, {two.claim.id: "ready"})
        assert lost == []

    def test_when_it_asked_what_is_locked(
        self,
        settler: Settler,
        operator: Connection,
        leased: Any,
        lost: list[Claim],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(lease, "valid", self.once(OperationalError("cut off"), lease.valid))
        one, locked = leased(2)

        with operator.transaction(force_rollback=True):
            cancel.cancel(operator, [locked.claim.id])
            put(settler, one, locked)
            with pytest.raises(OperationalError):
                settler.tick()
            settler.tick()
        write_all(settler)

        assert set(endings()) == {one.claim.id, locked.claim.id}
        assert lost == []


class TestWhatCannotBeWritten:
    def test_is_buried_and_holds_nothing_up(self, settler: Settler, leased: Any) -> None:
        # A codec's mistake, or ours. Kept at the head of the queue, it would be tried again
        # for ever, and nothing behind it be written, while the heartbeat holds the leases.
        first, bad, last = leased(3)
        put(settler, first)
        put(settler, bad, end=UNWRITABLE)
        put(settler, last)

        settler.tick()

        assert settler.is_done()
        assert set(endings()) == {first.claim.id, last.claim.id}
        message = Message.objects.get()
        assert (message.id, message.state) == (bad.claim.id, State.DEAD)
        assert "u0000" in message.errors[0]["message"]

    def test_is_buried_later_if_it_is_locked_and_so_is_what_ended_beside_it(
        self, settler: Settler, operator: Connection, leased: Any, lost: list[Claim]
    ) -> None:
        bad, locked, free = leased(3)

        with operator.transaction(force_rollback=True):
            cancel.cancel(operator, [bad.claim.id, locked.claim.id])
            put(settler, bad, end=UNWRITABLE)
            put(settler, locked, free)
            settler.tick()
            meanwhile = set(endings())
        write_all(settler)

        assert meanwhile == {free.claim.id}
        assert set(endings()) == {free.claim.id, locked.claim.id}
        assert states() == {bad.claim.id: State.DEAD}
        assert lost == []


class TestWhatATriggerRefuses:
    @every_end
    def test_holds_nothing_up_and_is_written_once_it_can_be(
        self,
        settler: Settler,
        operator: Connection,
        leased: Any,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
        end: Ending,
        left: str | None,
    ) -> None:
        refused, *others = leased(9)
        put(settler, refused, *others, end=end)

        with refusing(
            operator, "pgqueue_message", f"OLD.id = {refused.claim.id}", "UPDATE OR DELETE"
        ):
            settler.tick()
            settler.tick()
            running = Message.objects.filter(state=State.RUNNING)
            assert [each.id for each in running] == [refused.claim.id]
            assert not settler.is_done()
        assert f"settle fails because of pgqueue_message {refused.claim.id}" in caplog.text

        monkeypatch.setattr(settler, "_try_refused_at", 0.0)
        settler.tick()

        assert settler.is_done()
        expected = {each.claim.id: left for each in (refused, *others)} if left else {}
        assert states() == expected

    def test_is_no_run_s_fault_if_it_is_everything(
        self, settler: Settler, operator: Connection, leased: Any
    ) -> None:
        runs = leased(40)
        put(settler, *runs)

        with refusing(operator, "pgqueue_history", "true"):
            for _ in range(5):
                with suppress(Exception):
                    settler.tick()
            assert set(states().values()) == {State.RUNNING}
        settler._try_refused_at = 0.0
        write_all(settler)

        assert set(endings()) == {each.claim.id for each in runs}


def test_runs_may_end_at_any_moment_of_a_tick(
    settler: Settler, monkeypatch: pytest.MonkeyPatch, switching_often: None
) -> None:
    monkeypatch.setattr(settler, "_write", lambda batch: [])
    runs = [LeasedMessage(Mock(), 0.0) for _ in range(30_000)]
    ending = threading.Thread(target=put, args=[settler, *runs])
    ending.start()

    while ending.is_alive() or settler._ended:
        settler.tick()

    ending.join()


@pytest.fixture
def switching_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_what_is_closed_already_makes_room_at_once(
    settler: Settler, leases: Leases, leased: Any, made_room: list[bool]
) -> None:
    (atomic,) = leased(1)

    settler.put(atomic, Closed())

    assert (leases.all(), made_room, settler.is_done()) == ([], [True], True)


def test_a_run_that_was_given_up_and_ends_stays_leased_until_it_is_handed_back(
    settler: Settler, leases: Leases, leased: Any
) -> None:
    (given_up,) = leased(1)
    given_up.given_up = True

    settler.put(given_up, Closed())

    assert leases.all() == [given_up]


def test_it_waits_where_the_database_is_slow_or_a_row_is_locked_and_not_for_a_trigger(
    settler: Settler, operator: Connection, leased: Any
) -> None:
    locked, refused = leased(2)
    put(settler, locked, refused)
    queued = settler.is_waiting
    with (
        refusing(operator, "pgqueue_message", f"OLD.id = {refused.claim.id}", "UPDATE OR DELETE"),
        operator.transaction(),
    ):
        cancel.cancel(operator, [locked.claim.id])
        settler.tick()
        beside_a_lock = settler.is_waiting
    eventually(lambda: (settler.tick(), len(settler._unwritten) == 1)[1])

    assert (queued, beside_a_lock) == (True, True)
    assert not (settler.is_waiting or settler.is_done())


def test_what_is_claimed_again_as_soon_as_it_was_handed_back_was_not_lost(
    settler: Settler,
    leased: Callable[..., list[LeasedMessage]],
    worker: Connection,
    leases: Leases,
    lost: list[Claim],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (first,) = leased(1)
    write = module.write

    def write_and_claim(connection: Connection, batch: Any) -> set[int]:
        settled = write(connection, batch)
        leases.add([LeasedMessage(each, time.monotonic()) for each in claim(worker)])
        return settled

    monkeypatch.setattr(module, "write", write_and_claim)
    put(settler, first, end=HANDED_BACK)

    settler.tick()

    assert (lost, settler.is_done(), len(leases)) == ([], True, 1)
