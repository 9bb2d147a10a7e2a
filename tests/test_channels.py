"""Channels, as code meets them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.db import DatabaseError, IntegrityError, connections, transaction
from django.db.models import F
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from pgqueue import Channel
from pgqueue.database.connections import connect
from pgqueue.engine import claim_governed, expire, purge, route, settle
from pgqueue.engine.claim_governed import EVERY_TURN
from pgqueue.exceptions import ChannelPaused, InvalidChannel, InvalidPolicy
from pgqueue.models import Bell, Gate, History, Message, Policy
from pgqueue.models import Channel as Row
from pgqueue.models.channel import RETENTIONS
from pgqueue.models.fields import StatementTimestamp
from pgqueue.states import State
from tests import jobs
from tests.claims import GovernedClaims
from tests.factories import (
    LEASE,
    bury,
    claim,
    count_by,
    done,
    enqueue,
    failure,
    insert,
    run,
    schedule,
)

Connection = psycopg.Connection[Any]
MAIL = Channel("mail")
MINUTE = timedelta(minutes=1)


def claim_ruled(queue: Connection) -> list[str]:
    """Claim what policies let, as a worker does; return the keys."""
    while route.adopt(queue):
        pass
    route.route(queue, after=0)

    def claim_once() -> list[str]:
        served = claim_governed.claim(
            queue, "mail", after=EVERY_TURN, limit=100, worker_id=uuid4(), lease=LEASE
        )
        return [claim.key for claim in served.claims]

    return sorted(chain.from_iterable(iter(claim_once, [])))


def let_it_end() -> None:
    """Move the end of the channel's pause to now."""
    Row.objects.filter(name="mail").update(paused_until=StatementTimestamp())


def left() -> set[int]:
    """Return the ids of the messages that have not ended."""
    return set(Message.objects.values_list("id", flat=True))


def outcomes() -> dict[int, str]:
    """Return the outcome of each message that ended."""
    return dict(History.objects.values_list("id", "outcome"))


def make_old(*ids: int) -> None:
    """Have messages been enqueued an hour ago."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE pgqueue_message SET created_at = created_at - interval '1 hour' "
            "WHERE id = ANY (%s)",
            [list(ids)],
        )


@pytest.mark.parametrize("name", ["", None, 7, "x" * 201, "nul\x00"])
def test_what_can_not_be_a_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidChannel, match="The channel"):
        Channel(name)


class TestAPolicy:
    def test_limits_what_runs_of_the_whole_channel(self, queue: Connection) -> None:
        MAIL.policy(max_running=3)
        enqueue(queue, 2, channel="mail")
        enqueue(queue, 2, channel="mail", key="a")

        assert len(claim_ruled(queue)) == 3

    def test_limits_each_key_and_no_key_is_none(self, queue: Connection) -> None:
        MAIL.policy(max_running=1, each_key=True)
        for key in ("a", "b", ""):
            enqueue(queue, 2, channel="mail", key=key)

        assert claim_ruled(queue) == ["a", "b"]
        assert len(claim(queue, "mail")) == 2

    def test_of_one_key_replaces_that_for_each(self, queue: Connection) -> None:
        MAIL.policy(max_running=1, each_key=True)
        MAIL.policy(max_running=2, key="a")
        for key in ("a", "b"):
            enqueue(queue, 3, channel="mail", key=key)

        assert claim_ruled(queue) == ["a", "a", "b"]

    def test_holds_for_messages_that_were_there_before(self, queue: Connection) -> None:
        enqueue(queue, 3, channel="mail")
        MAIL.policy(max_running=1)

        assert len(claim(queue, "mail")) == 0
        assert len(claim_ruled(queue)) == 1

    def test_gives_a_key_with_more_weight_more_of_each_turn(self, queue: Connection) -> None:
        MAIL.policy(weight=1, each_key=True)
        MAIL.policy(weight=5, key="a")
        for key in ("a", "b", "c"):
            enqueue(queue, 10, channel="mail", key=key)
        route.route(queue, after=0)

        served = claim_governed.claim(
            queue, "mail", after=EVERY_TURN, limit=7, worker_id=uuid4(), lease=LEASE
        )

        assert count_by(served.claims, attrgetter("key")) == {"a": 5, "b": 1, "c": 1}

    def test_is_stated_as_a_whole(self, db: None) -> None:
        MAIL.policy(max_running=2, rate=5, per=60, burst=3, max_size=100)
        MAIL.policy(rate=5)

        policy = Policy.objects.get()
        assert (policy.max_running, policy.burst, policy.max_size) == (None, None, None)
        assert (policy.rate, policy.per) == (5.0, timedelta(seconds=1))

    def test_has_a_breaker_until_a_call_leaves_it_out(self, db: None) -> None:
        def stored() -> tuple[Any, ...]:
            each = Policy.objects.get()
            return each.breaker_failures, each.breaker_within, each.breaker_pause, each.governs

        MAIL.policy(breaker=(5, 60, MINUTE / 2))
        before = stored()
        MAIL.policy(max_size=5)

        assert before == (5, MINUTE, timedelta(seconds=30), True)
        assert stored() == (None, None, None, False)

    def test_of_each_scope_stands_beside_the_others(self, db: None) -> None:
        MAIL.policy(max_running=1)
        MAIL.policy(max_running=2, each_key=True)
        MAIL.policy(max_running=3, key="a")
        MAIL.policy(max_running=4, key="b")
        Channel("other").policy(max_running=5)

        assert [policy.max_running for policy in MAIL.policies()] == [1, 2, 3, 4]

    def test_that_is_said_again_changes_nothing(self, db: None) -> None:
        MAIL.policy(max_running=2, rate=5)
        rung = Bell.objects.count()

        MAIL.policy(max_running=2, rate=5)

        assert (rung, Bell.objects.count()) == (1, 1)
        assert Policy.objects.count() == 1

    def test_that_is_changed_rings_its_channel(self, db: None) -> None:
        MAIL.policy(max_running=2)
        MAIL.policy(max_running=3)
        MAIL.remove_policy()

        assert Bell.objects.filter(channel="mail", key=None).count() == 3
        assert Gate.objects.filter(channel="mail").exists()

    def test_that_holds_for_a_key_is_its_own_or_that_for_each(self, db: None) -> None:
        MAIL.policy(max_running=1)
        MAIL.policy(max_running=2, each_key=True)
        MAIL.policy(max_running=3, key="a")

        def most(key: str | None) -> int | None:
            policy = MAIL.policy_of(key)
            return policy and policy.max_running

        assert [most(key) for key in (None, "a", "b", "")] == [1, 3, 2, None]
        assert Channel("other").policy_of("a") is None

    def test_is_removed_with_its_scope_alone(self, db: None) -> None:
        MAIL.policy(max_running=1)
        MAIL.policy(max_running=2, each_key=True)
        MAIL.policy(max_running=3, key="a")

        removed = [MAIL.remove_policy(key="a"), MAIL.remove_policy(key="a")]

        assert removed == [True, False]
        assert [policy.scope for policy in MAIL.policies()] == ["channel", "each"]
        assert MAIL.remove_policy(each_key=True)
        assert MAIL.remove_policy()
        assert MAIL.policies() == []

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "has no limit"),
            ({"burst": 3}, "has no limit"),
            ({"max_running": 0}, "max_running=0: it must be a whole number, 1 or more"),
            ({"max_running": True}, "max_running=True"),
            ({"max_running": 2**31}, "max_running=2147483648"),
            ({"max_size": -1}, "max_size=-1"),
            ({"rate": 0}, "rate=0: it must be above 0"),
            ({"rate": float("nan")}, "rate=nan"),
            ({"rate": 2e6}, "rate=2000000.0"),
            ({"rate": "5"}, "rate='5': it must be a number"),
            ({"rate": 5, "per": 0}, "per=0: it must be longer than 0"),
            ({"rate": 5, "per": timedelta(days=367)}, "per="),
            ({"rate": 5, "burst": 0}, "burst=0"),
            ({"rate": 5, "burst": 1.5}, "burst=1.5"),
            ({"max_running": 1, "burst": 3}, "burst=3: it needs a rate"),
            ({"rate": 1e6, "per": 0.001}, "rate=1000000.0: it may be a million a second"),
            ({"rate": 1e-6, "per": timedelta(days=360)}, "rate=1e-06: it must be one"),
            ({"rate": 1, "per": timedelta(days=30), "burst": 2**31 - 1}, "burst=2147483647"),
            ({"breaker": 5}, "breaker=5: it must be three values: failures, within and pause"),
            ({"breaker": (5, 60)}, "breaker=(5, 60): it must be three values"),
            ({"breaker": (0, 60, 30)}, "breaker: failures=0: it must be a whole number"),
            ({"breaker": (1001, 60, 30)}, "breaker: failures=1001"),
            ({"breaker": (5, 0, 30)}, "breaker: within=0: it must be longer than 0"),
            ({"breaker": (5, 60, timedelta(days=367))}, "breaker: pause="),
            ({"breaker": (5, 60, "30")}, "breaker: pause='30'"),
            ({"weight": 3}, "weight=3: only keys have one"),
            ({"weight": 101, "each_key": True}, "weight=101"),
            ({"max_running": 1, "key": ""}, "key='': a message without a key"),
            ({"max_running": 1, "key": 7}, "key=7: it must be text"),
            ({"max_running": 1, "key": "x" * 1001}, "1000 bytes"),
            ({"max_running": 1, "key": "a", "each_key": True}, "key='a'"),
        ],
    )
    def test_that_can_not_be_is_refused_by_the_name_of_its_option(
        self, options: dict[str, Any], said: str
    ) -> None:
        with pytest.raises(InvalidPolicy) as raised:
            MAIL.policy(**options)

        assert said in str(raised.value)

    @pytest.mark.parametrize(
        "limits",
        [
            {"rate": 1e6},
            {"rate": 1e-6},
            {"rate": 1, "per": timedelta(days=366), "burst": 90},
            {"rate": 1000, "per": 0.001},
            {"rate": 5, "burst": 2**31 - 1},
            {"max_running": 2**31 - 1, "max_size": 2**31 - 1},
            {"weight": 100, "key": "é" * 500},
            {"breaker": (1000, timedelta(days=366), timedelta(microseconds=1))},
        ],
    )
    def test_at_the_edge_of_what_can_be_is_stored_and_can_be_claimed_by(
        self, queue: Connection, limits: dict[str, Any]
    ) -> None:
        MAIL.policy(**limits)
        enqueue(queue, 2, channel="mail", key="é" * 500)

        assert claim_ruled(queue)

    @pytest.mark.parametrize(
        "columns",
        [
            {"rate": 1e6, "per": timedelta(milliseconds=1)},
            {"rate": 1e-300},
            {"rate": 1e-6, "per": timedelta(days=360)},
            {"rate": 1, "per": timedelta(days=30), "burst": 2**31 - 1},
        ],
    )
    def test_by_which_claims_would_fail_can_not_be_stored(
        self, db: None, columns: dict[str, Any]
    ) -> None:
        with pytest.raises(IntegrityError, match="pgqueue_policy_(rate|pace)"):
            Policy.objects.create(channel="mail", scope="channel", **columns)

    @pytest.mark.django_db(databases=["default", "second"])
    def test_may_be_in_another_database(self) -> None:
        Channel("mail", database="second").policy(max_running=1)

        assert Policy.objects.using("second").get().channel == "mail"
        assert not Policy.objects.exists()


class TestConfiguring:
    def test_changes_what_is_given_alone(self, db: None) -> None:
        MAIL.configure(on_dead="skip", retention=3600, handler=jobs.add)
        MAIL.configure(on_full="drop", watched=True)

        row = Row.objects.get()
        assert (row.on_dead, row.on_full, row.watched) == ("skip", "drop", True)
        assert (row.retention, row.handler) == (timedelta(hours=1), "tests.jobs.add")
        MAIL.configure(retention=None, handler="")
        row.refresh_from_db()
        assert (row.retention, row.handler, row.on_dead) == (None, "", "skip")

    def test_states_how_long_its_messages_are_kept_as_a_whole(self, db: None) -> None:
        def kept() -> list[float | None]:
            row = MAIL.configured()
            return [keep and keep.total_seconds() for keep in attrgetter(*RETENTIONS)(row)]

        MAIL.configure(retention=60, dead_retention=timedelta(minutes=5))
        as_one = kept()
        MAIL.configure(retention={"succeeded": 7, "expired": timedelta(seconds=8)})
        by_outcome = kept()
        MAIL.configure(retention=None)

        assert as_one == [60, None, None, None, None, 300]
        assert by_outcome == [None, 7, None, None, 8, 300]
        assert kept() == [None, None, None, None, None, 300]
        assert Channel("other").configured().retention is None

    @pytest.mark.parametrize("column", RETENTIONS)
    @pytest.mark.parametrize("keep", [timedelta(), timedelta(days=-1), timedelta(days=40_000)])
    def test_keeps_nothing_for_longer_than_can_be(
        self, db: None, column: str, keep: timedelta
    ) -> None:
        with pytest.raises(IntegrityError, match="pgqueue_channel_retention"):
            Row.objects.create(name="mail", **{column: keep})

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"on_deat": "skip"}, "no option 'on_deat'. Did you mean 'on_dead'?"),
            ({"paused": True}, "no option 'paused'"),
            ({"on_dead": "explode"}, "on_dead='explode': it must be 'block' or 'skip'"),
            ({"on_full": None}, "on_full=None"),
            ({"watched": 1}, "watched=1"),
            ({"handler": 7}, "handler=7: it must be a task"),
            ({"retention": 0}, "retention=0: it must be longer"),
            ({"retention": "a week"}, "'a week' is neither seconds nor"),
            ({"retention": {"succeeded": -1}}, "it must be longer"),
            ({"retention": {"succeded": 1}}, "Did you mean 'succeeded'?"),
            ({"retention": {"dead": 1}}, "'dead' is no outcome. There are succeeded"),
            ({"dead_retention": timedelta(days=40_000)}, "as good as for ever"),
        ],
    )
    def test_names_what_can_not_be(self, options: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidChannel) as raised:
            MAIL.configure(**options)

        assert said in str(raised.value)


class TestAPauseWithAnEnd:
    """`pause(until=…)`."""

    @pytest.mark.parametrize("is_governed", [False, True])
    def test_is_over_at_its_end_without_a_duty(self, queue: Connection, is_governed: bool) -> None:
        if is_governed:
            MAIL.policy(max_running=5)
        enqueue(queue, channel="mail")
        claims = claim_ruled if is_governed else lambda queue: claim(queue, "mail")
        MAIL.pause(until=timedelta(hours=1))

        while_paused = claims(queue)
        let_it_end()

        assert (len(while_paused), len(claims(queue))) == (0, 1)

    def test_tells_its_end(self, db: None) -> None:
        until = timezone.now() + timedelta(hours=1)

        MAIL.pause(until=until)

        assert (MAIL.stats().paused, MAIL.stats().paused_until) == (True, until)
        assert MAIL.configured().is_paused
        let_it_end()
        assert (MAIL.stats().paused, MAIL.stats().paused_until) == (False, None)
        assert not MAIL.configured().is_paused

    def test_lasts_for_a_time_of_the_databases_clock(self, db: None) -> None:
        MAIL.pause(until=timedelta(hours=1))

        (left,) = Row.objects.values_list(F("paused_until") - StatementTimestamp(), flat=True)
        assert timedelta(minutes=50) < left <= timedelta(hours=1)

    def test_is_ended_earlier_by_a_resume_which_forgets_its_end(self, queue: Connection) -> None:
        enqueue(queue, channel="mail")
        MAIL.pause(until=timedelta(hours=1))

        assert (MAIL.resume(), len(claim(queue, "mail"))) == (True, 1)

        # As psql and code before the column do.
        Row.objects.update(paused=True)
        assert MAIL.stats().paused_until is None

    def test_gets_the_end_of_a_later_pause(self, db: None) -> None:
        later = timezone.now() + timedelta(days=2)

        changed = [MAIL.pause(until=timedelta(hours=1)), MAIL.pause(until=later)]
        ends = [MAIL.stats().paused_until]
        changed.append(MAIL.pause())
        ends.append(MAIL.stats().paused_until)

        assert changed == [True, False, False]
        assert ends == [later, None]

    def test_that_is_over_is_not_paused_before_nor_resumed(self, db: None) -> None:
        MAIL.pause(until=timedelta(hours=1))
        let_it_end()

        assert not MAIL.resume()
        MAIL.pause(until=timedelta(hours=1))
        let_it_end()
        assert MAIL.pause()

    def test_is_removed_by_the_duty_which_tells_the_workers(self, queue: Connection) -> None:
        MAIL.pause(until=timedelta(hours=1))
        Channel("stock").pause()
        let_it_end()
        Bell.objects.all().delete()

        assert expire.resume(queue) == 1

        assert sorted(Row.objects.values_list("name", "paused", "paused_until")) == [
            ("mail", False, None),
            ("stock", True, None),
        ]
        assert list(Bell.objects.values_list("channel", flat=True)) == ["mail"]

    @pytest.mark.parametrize(
        ("until", "said"),
        [
            (timedelta(), "it must be longer than 0 seconds"),
            (timedelta(days=40_000), "as good as for ever"),
            (timezone.now() - timedelta(seconds=1), "it must be later than now"),
            (datetime(2999, 1, 1), "it must say its time zone"),
            (60, "until=60: it must be a datetime or a timedelta"),
        ],
    )
    def test_has_an_end_that_comes(self, db: None, until: Any, said: str) -> None:
        with pytest.raises(InvalidChannel) as raised:
            MAIL.pause(until=until)

        assert said in str(raised.value)
        assert not Row.objects.exists()


class TestAnOpenBreaker:
    def test_is_told_and_is_closed_by_a_resume(self, queue: Connection) -> None:
        MAIL.policy(breaker=(2, 60, 30))
        MAIL.policy(breaker=(1, 60, 30), each_key=True)
        enqueue(queue, 2, channel="mail", key="a")
        enqueue(queue, 2, channel="mail", key="b")
        (held,) = GovernedClaims(queue).claim(1)
        settle.retry(queue, [failure(held)])

        seen = [(each.key, each.state, each.failures, each.most) for each in MAIL.breakers()]
        before = claim_ruled(queue)
        resumed = [MAIL.resume(), MAIL.resume()]

        assert seen == [("a", "open", 1, 1), ("", "closed", 1, 2)]
        assert before == ["b", "b"]
        assert resumed == [True, False]
        assert claim_ruled(queue) == ["a", "a"]
        assert [each.key for each in MAIL.breakers()] == [""]


def test_a_paused_channel_starts_nothing_until_it_is_resumed(queue: Connection) -> None:
    enqueue(queue, channel="mail")

    paused = [MAIL.pause(), MAIL.pause()]
    while_paused = claim(queue, "mail")
    resumed = [MAIL.resume(), MAIL.resume()]

    assert (paused, resumed) == ([True, False], [True, False])
    assert (len(while_paused), len(claim(queue, "mail"))) == (0, 1)


@pytest.mark.django_db(transaction=True)
class TestDraining:
    @pytest.fixture
    def worker(self) -> Iterator[Connection]:
        """A connection such as a worker's."""
        with connect("default", name="test") as connection:
            yield connection

    def test_waits_until_what_runs_has_ended(self, worker: Connection) -> None:
        (held,) = run(worker, channel="mail")

        assert not MAIL.drain(timeout=0.05)
        with ThreadPoolExecutor() as threads:
            drained = threads.submit(in_a_thread_of_its_own, MAIL.drain)
            settle.complete(worker, [done(held)])

            assert drained.result(timeout=10)

    @pytest.mark.parametrize(
        ("columns", "is_drained"),
        [
            ({"state": "ready"}, False),
            ({"state": "scheduled", "failures": 1}, False),
            ({"state": "scheduled"}, True),
            ({"state": "held"}, True),
            ({"state": "dead"}, True),
            ({"state": "ready", "channel": "other"}, True),
        ],
    )
    def test_is_over_when_nothing_is_ready_running_or_waiting_for_a_retry(
        self, worker: Connection, columns: dict[str, Any], is_drained: bool
    ) -> None:
        insert(worker, **{"channel": "mail", **columns})

        assert MAIL.drain(timeout=0) == is_drained

    def test_does_not_wait_for_what_a_paused_channel_keeps_back(self, worker: Connection) -> None:
        enqueue(worker, channel="mail")
        MAIL.pause()

        assert MAIL.drain(timeout=0)

    def test_needs_no_worker_where_only_a_policy_is_new(self, worker: Connection) -> None:
        MAIL.policy(max_running=1)

        assert MAIL.drain(timeout=0)

    def test_is_refused_in_a_transaction(self) -> None:
        with transaction.atomic(), pytest.raises(TransactionManagementError):
            MAIL.drain()

    def test_is_what_a_release_does_before_it_forgets_the_channel(self, worker: Connection) -> None:
        MAIL.configure(on_dead="skip")
        MAIL.policy(max_running=1)
        Channel("other").policy(max_running=1)
        (message,) = enqueue(worker, channel="mail")

        assert not MAIL.release(timeout=0)
        assert (Row.objects.count(), Policy.objects.count()) == (1, 2)
        MAIL.cancel(message)
        assert MAIL.release(timeout=0)
        assert not Row.objects.exists()
        assert Policy.objects.get().channel == "other"

    def test_a_paused_channel_is_not_released(self, worker: Connection) -> None:
        MAIL.pause()

        with pytest.raises(ChannelPaused, match="'mail' is paused"):
            MAIL.release()

        assert Row.objects.get().paused

    def test_a_channel_that_is_paused_while_it_drains_is_not_released(
        self, worker: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        MAIL.policy(max_running=1)
        enqueue(worker, channel="mail")
        real = Channel._is_unfinished

        def pauses_first(channel: Channel) -> bool:
            channel.pause()
            return real(channel)

        monkeypatch.setattr(Channel, "_is_unfinished", pauses_first)

        with pytest.raises(ChannelPaused, match="'mail' is paused"):
            MAIL.release()

        assert (Row.objects.get().paused, Policy.objects.count()) == (True, 1)


def in_a_thread_of_its_own(verb: Any) -> Any:
    """Call it, and close the connections that Django opened for this thread."""
    try:
        return verb()
    finally:
        connections.close_all()


class TestPurging:
    @pytest.fixture(params=["in one step", "in many"])
    def _steps(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let a step end two messages at most, or look at three."""
        if request.param == "in many":
            monkeypatch.setattr(purge, "BATCH", 2)
            monkeypatch.setattr(purge, "REACH", 3)

    @pytest.mark.usefixtures("_steps")
    def test_ends_all_but_what_runs(self, queue: Connection) -> None:
        ids = [insert(queue, channel="mail", state=state) for state in State for _ in range(3)]
        (other,) = enqueue(queue, channel="other")
        running = Message.objects.filter(state=State.RUNNING).values_list("id", flat=True)
        stay = {*running, other}

        assert MAIL.purge() == 12

        assert left() == stay
        assert outcomes() == dict.fromkeys(set(ids) - stay, "discarded")

    @pytest.mark.parametrize("state", [State.HELD, State.SCHEDULED, State.READY, State.DEAD])
    def test_may_be_of_one_state(self, queue: Connection, state: State) -> None:
        for each in State:
            insert(queue, channel="mail", state=each)

        assert MAIL.purge(states=[state]) == 1

        assert set(Message.objects.values_list("state", flat=True)) == set(State) - {state}

    @pytest.mark.parametrize("states", [["running"], ["ready", "nothing"]])
    def test_of_what_can_not_be_purged_is_refused(self, db: None, states: list[str]) -> None:
        with pytest.raises(ValueError, match="are not purged|nothing"):
            MAIL.purge(states=states)

    def test_leaves_what_came_since_it_began(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        enqueue(queue, 3, channel="mail")
        later: list[int] = []

        def discard_and_enqueue(*args: Any, **kwargs: Any) -> purge.PurgeStep:
            later.extend(enqueue(queue, channel="mail"))
            return original(*args, **kwargs)

        original = purge.discard
        monkeypatch.setattr(purge, "discard", discard_and_enqueue)
        monkeypatch.setattr(purge, "BATCH", 2)

        assert MAIL.purge() == 3
        assert left() == set(later)

    def test_makes_the_day_that_history_does_not_have_yet(self, queue: Connection) -> None:
        enqueue(queue, channel="mail")
        (today,) = queue.execute(
            "SELECT 'pgqueue_history_' "
            "|| to_char(statement_timestamp() AT TIME ZONE 'UTC', 'YYYYMMDD')"
        ).fetchone() or ("",)
        queue.execute(f"DROP TABLE {today}")

        assert MAIL.purge() == 1
        assert list(outcomes().values()) == ["discarded"]

    @pytest.mark.django_db(transaction=True)
    def test_passes_over_what_is_locked_and_keeps_what_was_done_when_it_fails(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with locked_message() as locked:
            ids = enqueue(connections["default"], 4, channel="mail")
            monkeypatch.setattr(purge, "BATCH", 2)
            steps: list[int] = []

            def fail_later(*args: Any, **kwargs: Any) -> purge.PurgeStep:
                steps.append(1)
                if len(steps) == 3:
                    raise DatabaseError("gone")
                return original(*args, **kwargs)

            original = purge.discard
            monkeypatch.setattr(purge, "discard", fail_later)

            with pytest.raises(DatabaseError):
                MAIL.purge()

            assert left() == {locked, *ids[3:]}


@contextmanager
def locked_message() -> Iterator[int]:
    """Lock a message of the channel in another session."""
    with connect("default", name="test") as other:
        (id,) = enqueue(other, channel="mail")
        with other.transaction():
            other.execute("SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE", [id])
            yield id


class TestTrimming:
    def test_by_count_ends_the_oldest(self, queue: Connection) -> None:
        ids = enqueue(queue, 5, channel="mail")
        others = enqueue(queue, 5, channel="other")

        assert MAIL.trim(keep=2) == 3

        assert left() == {*ids[3:], *others}
        assert outcomes() == dict.fromkeys(ids[:3], "discarded")

    def test_by_age_ends_what_was_enqueued_longer_ago(self, queue: Connection) -> None:
        ids = enqueue(queue, 3, channel="mail")
        make_old(ids[0], ids[2])

        assert MAIL.trim(older_than=MINUTE) == 2
        assert left() == {ids[1]}

    def test_by_both_ends_what_is_too_old_or_too_much(self, queue: Connection) -> None:
        ids = enqueue(queue, 4, channel="mail")
        make_old(ids[3])

        assert MAIL.trim(older_than=60, keep=3) == 2
        assert left() == {ids[1], ids[2]}

    def test_leaves_what_runs_and_dead_letters_and_counts_neither(self, queue: Connection) -> None:
        stay = {
            *(claim.id for claim in run(queue, 2, channel="mail")),
            insert(queue, channel="mail", state="dead"),
        }
        waiting = [
            *schedule(queue, channel="mail"),
            insert(queue, channel="mail", state="held"),
            *enqueue(queue, channel="mail"),
        ]
        make_old(*stay, *waiting)

        assert MAIL.trim(keep=3) == 0
        assert MAIL.trim(older_than=60) == 3
        assert left() == stay

    def test_by_count_counts_what_is_delayed_or_held(self, queue: Connection) -> None:
        (ready,) = enqueue(queue, channel="mail")
        (delayed,) = schedule(queue, channel="mail")
        held = insert(queue, channel="mail", state="held")

        assert MAIL.trim(keep=2) == 1
        assert left() == {delayed, held}
        assert MAIL.trim(keep=1) == 1
        assert (left(), outcomes()) == ({held}, dict.fromkeys([ready, delayed], "discarded"))

    def test_to_nothing_keeps_nothing(self, queue: Connection) -> None:
        enqueue(queue, 2, channel="mail")

        assert MAIL.trim(keep=0) == 2

    @pytest.mark.parametrize("bounds", [{}, {"keep": -1}, {"older_than": -1}])
    def test_needs_a_bound(self, db: None, bounds: dict[str, int]) -> None:
        with pytest.raises(ValueError, match="older_than|keep=-1: it must be"):
            MAIL.trim(**bounds)


class TestOperatingOnMessages:
    def test_cancel_ends_what_waits_and_asks_what_runs(self, queue: Connection) -> None:
        (running,) = (claim.id for claim in run(queue, channel="mail"))
        waiting = [*enqueue(queue, channel="mail"), *schedule(queue, channel="mail")]
        (other,) = enqueue(queue, channel="other")

        operated = MAIL.cancel()

        assert (operated.done, operated.asked) == ({*waiting}, {running})
        assert left() == {running, other}

    def test_messages_are_chosen_by_id_key_task_and_age(self, queue: Connection) -> None:
        def one(**changed: Any) -> int:
            return enqueue(queue, **{"channel": "mail", **changed})[0]

        plain, other = one(), one(channel="other")
        keyed, tasked, old = one(key="a"), one(task="shop.send"), one(key="a", task="shop.send")
        make_old(old)

        chosen = [
            MAIL.cancel(plain, other).done,
            MAIL.cancel(key="a", older_than=60).done,
            MAIL.cancel(task="shop.send").done,
            MAIL.cancel(key="").done,
        ]

        assert chosen == [{plain}, {old}, {tasked}, set()]
        assert left() == {other, keyed}

    def test_replay_makes_dead_letters_ready_and_notes_what_they_were(
        self, queue: Connection
    ) -> None:
        first, second = bury(queue, 2, channel="mail", metadata='{"trace": "abc"}')
        (elsewhere,) = bury(queue, channel="other")

        assert MAIL.replay(first).done == {first}

        message = Message.objects.get(pk=first)
        assert (message.state, message.failures) == ("ready", 0)
        assert message.metadata == {"trace": "abc", "replayed_from": first}
        assert set(Message.objects.dead().values_list("id", flat=True)) == {second, elsewhere}

    def test_that_a_message_was_replayed_is_in_its_history(self, queue: Connection) -> None:
        (message,) = bury(queue, channel="mail")
        MAIL.replay()

        settle.complete(queue, [done(each) for each in claim(queue, "mail")])

        assert History.objects.get(pk=message).metadata == {"replayed_from": message}

    def test_replay_and_discard_leave_what_is_not_dead(self, queue: Connection) -> None:
        (waiting,) = schedule(queue, channel="mail")

        assert MAIL.replay().done == MAIL.discard(waiting).done == set()
        assert left() == {waiting}

    def test_discard_ends_dead_letters_by_filter(self, queue: Connection) -> None:
        sent = bury(queue, 2, channel="mail", task="shop.send")
        (other,) = bury(queue, channel="mail", task="shop.receive")

        assert MAIL.discard(task="shop.send").done == set(sent)
        assert count_by(outcomes().values(), str) == {"discarded": 2}
        assert left() == {other}

    def test_a_key_is_looked_up_by_the_indexes(self, queue: Connection) -> None:
        queue.execute("SET LOCAL enable_seqscan = off")

        plan = Message.objects.in_channel("mail").filter(key="a").explain()

        assert plan.count("Bitmap Index Scan") == 6
        assert "Seq Scan" not in plan


def test_stats_are_of_one_channel_or_all(queue: Connection) -> None:
    enqueue(queue, 2, channel="mail")
    bury(queue, channel="other")
    Channel("configured").pause()

    assert MAIL.stats().ready == 2
    assert (MAIL.stats().paused, Channel("configured").stats().paused) == (False, True)
    assert [name for name, each in Channel.all_stats().items() if each.paused] == ["configured"]
    assert {name: (each.ready, each.dead) for name, each in Channel.all_stats().items()} == {
        "configured": (0, 0),
        "mail": (2, 0),
        "other": (0, 1),
    }
