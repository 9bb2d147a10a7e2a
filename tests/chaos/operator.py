"""Do all that the engine can, over and over, beside workers and producers.

Run as `python -m tests.chaos.operator [SECONDS]`, which it rests after each. Its messages carry a
number below 0, which the books leave out. Each verb may fail at any time; it is said, and tried
again.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, date, datetime, timedelta
from itertools import cycle
from typing import get_args
from uuid import UUID, uuid4

import django

SOON = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
APART = """
    DROP SCHEMA IF EXISTS apart CASCADE;
    CREATE SCHEMA apart;
    SET search_path = apart, public;
    CREATE TABLE pgqueue_event (LIKE public.pgqueue_event) PARTITION BY RANGE (position);
    CREATE TABLE pgqueue_event_0 PARTITION OF pgqueue_event FOR VALUES FROM (0) TO (1000000);
    CREATE TABLE pgqueue_event_1 PARTITION OF pgqueue_event FOR VALUES FROM (1000000) TO (2000000);
    CREATE TABLE pgqueue_log_floor (LIKE public.pgqueue_log_floor INCLUDING ALL);
    INSERT INTO pgqueue_event
    SELECT unnest(ARRAY[999999, 1999999]), 'odd', '', NULL, '{}', 'epoch'
"""
"""A log whose partitions are full: positions of the real one have no gaps."""
NOBODY = -1
NONE = UUID(int=0)


def verbs() -> list[Callable[[], object]]:  # noqa: C901 (a list of small functions)
    """Return them, each to be called again and again."""
    from django.db.models.functions import Now

    from pgqueue import (
        NO_EVENT,
        Channel,
        ChannelFull,
        WaitTimeout,
        batch,
        flow,
        get_flow,
        publish,
        publish_many,
        read,
        receive,
        receive_external,
        send,
        watch,
    )
    from pgqueue.conf import settings
    from pgqueue.database.connections import connect
    from pgqueue.duties.all import all_duties
    from pgqueue.duties.maintain import maintain
    from pgqueue.engine import (
        backfill,
        channels,
        claim,
        claim_governed,
        dead,
        dispatch,
        enqueue,
        event_partitions,
        event_retention,
        expire,
        exports,
        flow_graph,
        flows,
        groups,
        held,
        lease,
        live_counts,
        log,
        lookup,
        matching,
        notifications,
        operate,
        overview,
        partitions,
        predicates,
        promote,
        purge,
        readers,
        reencrypt,
        replication,
        retention,
        route,
        run_statistics,
        schedule,
        sequence,
        staged,
        wait,
        workers,
    )
    from pgqueue.events import groups as named
    from pgqueue.events import subscribing, subscriptions, trail
    from pgqueue.metrics import exposition
    from pgqueue.models import Duty, Message, Schedule, Subscription
    from pgqueue.operating import health
    from pgqueue.options.filters import Filter
    from pgqueue.options.sql_conditions import SQLCondition
    from pgqueue.replication import slots
    from pgqueue.tasks import scheduling

    plain = tasks.plain.using(channel="odd")
    idle, bounded, parked = Channel("idle"), Channel("bounded"), Channel("parked")
    odd = Channel("odd")

    def on_its_own(verb: Callable[..., object], *arguments: object, **options: object) -> object:
        with closing(connect("default", name="operator")) as connection:
            return verb(connection, *arguments, **options)

    def hold() -> None:
        for end in ("commit", "abandon"):
            result = plain.using(hold_for=5).enqueue(NOBODY)
            result.extend_hold(for_=8)
            getattr(result, end)()

    def deduplicate() -> None:
        for _ in range(2):
            plain.using(dedupe_key="the same").enqueue(NOBODY)
        plain.using(dedupe_key=str).enqueue_many([(-number,) for number in (2, 3, 4)])
        # Nobody's books have an event of it.
        receive_external("odd", source="operator")

    def fill() -> None:
        bounded.policy(max_size=3)
        bounded.configure(on_full="drop")
        plain.using(channel="bounded").enqueue_many([(NOBODY,) for _ in range(5)])
        with batch() as work:
            work.enqueue_many(
                plain.using(channel="plenty", key=lambda number: str(number)),
                [(-number,) for number in range(1, 505)],
            )
        bounded.cancel()
        bounded.configure(on_full="refuse")
        with suppress(ChannelFull):
            plain.using(channel="bounded").enqueue_many([(NOBODY,) for _ in range(5)])

    def keep_order() -> None:
        plain.using(channel="ordered too", key="a", ordered=True).enqueue_many([(NOBODY,)] * 3)

    def operate_on_some() -> None:
        result = plain.using(run_after=3600).enqueue(NOBODY)
        Message.objects.filter(pk=result.id).run_now()
        plain.using(run_after=3600).enqueue(NOBODY).cancel()
        tasks.hopeless.using(channel="idle").enqueue(NOBODY)
        idle.replay()
        idle.discard()
        idle.policy(max_running=2, rate=1000)
        idle.policy(each_key=True, rate=500, max_running=3)
        tasks.limited.using(channel="idle", key="a").enqueue(NOBODY)

    def write_from_spark() -> None:
        defaults = staged.Defaults("tests.chaos.tasks.plain", "odd", '{"args": [-1]}')
        with closing(connect("default", name="operator")) as connection:
            attempt = staged.begin(connection)
            connection.execute(
                "INSERT INTO pgqueue_staged (attempt, number, channel, ordered, message_id) "
                "VALUES (%(attempt)s, 0, NULL, true, -1), (%(attempt)s, 1, 'bounded', NULL, -1), "
                "(%(attempt)s, 2, NULL, NULL, -1)",
                {"attempt": attempt},
            )
            with connection.transaction():
                for _ in range(2):
                    staged.is_new(connection, staged.Write("operator", attempt, ""), rows=3)
                staged.operate(connection, [attempt], operate.replay, rows=3)
                with suppress(ChannelFull), connection.transaction():
                    staged.enqueue(connection, [attempt], defaults, rows=3)
                with connection.transaction(force_rollback=True):
                    # Nobody's books have these events.
                    staged.publish(connection, [attempt], topic="odd", rows=3)
                staged.remove(connection, [attempt])
            staged.forget(connection)

    def fill_back() -> None:
        with closing(connect("default", name="operator")) as connection:
            attempt = staged.begin(connection)
            connection.execute(
                "INSERT INTO pgqueue_staged (attempt, number) VALUES (%s, 0)", [attempt]
            )
            named = str(attempt)
            backfill.record(connection, named, task="t", source="s", attempts=[attempt], total=1)
            backfill.find_progress(connection, named)
            for _ in range(2):
                with connection.transaction():
                    backfill.take(connection, named, limit=5)

    def encrypt_anew() -> None:
        # Nobody's books have what they return.
        with closing(connect("default", name="operator")) as connection:
            for table in get_args(reencrypt.Table):
                with connection.transaction():
                    rows = reencrypt.read(connection, table, after=0, tasks=[], limit=5)
                    reencrypt.write(connection, table, [(row, row) for row in rows])

    def operate_on_what_is_locked() -> None:
        result = plain.using(run_after=3600).enqueue(NOBODY)
        lock = "SELECT FROM pgqueue_message WHERE id = %s FOR UPDATE"
        with closing(connect("default", name="operator")) as own, own.transaction():
            own.execute(lock, [result.id])
            Message.objects.filter(pk=result.id).cancel()
        result.cancel()

    def wait_for() -> None:
        plain.enqueue(NOBODY).wait(timeout=3)

    def wait_by_hand() -> None:
        with closing(connect("default", name="operator")) as connection:
            rows = wait.announce(connection, [1], lasting=SOON)
            wait.renew(connection, list(rows.values()), lasting=SOON)
            wait.ended(connection, [1])
            wait.look(connection, [1])
            wait.withdraw(connection, list(rows.values()))
            wait.forget(connection)

    def receive_some() -> None:
        send("by hand", {"args": [NOBODY]})
        with receive("by hand", limit=5, lease=5) as receiver:
            for delivery in receiver:
                delivery.checkpoint(progress=1)
                delivery.extend()
                delivery.complete()
        with receive("never sent to") as receiver:
            receiver.take()

    def flow_some() -> None:
        with flow("odd") as stored:
            grown = stored.enqueue(tasks.grows.using(channel="odd"), NOBODY, [NOBODY], NOBODY)
            stored.enqueue(tasks.member.using(channel="odd"), NOBODY, [grown], [NOBODY])
            stored.enqueue(plain.using(dedupe_key="of a flow"), NOBODY)
        with flow("behind it", after=stored) as behind:
            behind.enqueue(plain, NOBODY)
        with suppress(WaitTimeout):
            stored.wait(timeout=3)
        get_flow(stored.id).retry()
        for each in (stored, behind):
            each.cancel()
        on_its_own(flows.ring, "odd", [NOBODY])
        on_its_own(flows.in_order, [NOBODY])
        on_its_own(flows.ordered_lanes, [NOBODY])
        on_its_own(flows.end)
        on_its_own(flows.forget, keep=-SECOND)

    def look() -> None:
        parked.pause()
        plain.using(channel="parked").enqueue_many([(NOBODY,) for _ in range(120)])
        # Of so many channels each is counted up to 100 only, and estimated beyond.
        names = ["parked", *map(str, range(1000))]
        on_its_own(live_counts.measure, names)
        on_its_own(channels.in_use)
        on_its_own(channels.lanes, "limited")
        on_its_own(channels.ended, ["odd"])
        parked.trim(keep=100)
        parked.purge()
        idle.drain(timeout=0.01)

    def look_over() -> None:
        exposition.of_the_queue("default", accept="")
        on_its_own(overview.look, run_statistics.WINDOWS["hour"], limit=5)
        on_its_own(overview.limited)
        on_its_own(overview.stopped_flows)
        on_its_own(run_statistics.over_time, period=run_statistics.MINUTE, span=SOON)
        on_its_own(run_statistics.fold)
        on_its_own(flows.ring_stale)
        on_its_own(flows.end)
        on_its_own(flows.forget, keep=SOON)
        # What only a worker that traces asks.
        on_its_own(flows.origins, 1, 1, limit=5)
        on_its_own(run_statistics.forget)
        on_its_own(live_counts.by_key, "odd", bound=10)
        on_its_own(lookup.may_read)

    def look_at_flows() -> None:
        on_its_own(flows.progress, [NOBODY], bound=10)
        on_its_own(flow_graph.graph_of, NOBODY)
        # As of a flow that is too large to look at all of it.
        on_its_own(flow_graph._by_task, NOBODY, [], [], {}, is_whole=False)
        on_its_own(flow_graph.parents, NOBODY, NOBODY, limit=5)
        on_its_own(flow_graph.children, NOBODY, limit=5)
        on_its_own(flow_graph.missing, NOBODY, limit=5)
        on_its_own(flow_graph.on_failure, NOBODY)
        on_its_own(flow_graph.last_end, NOBODY, NOBODY, before=datetime.now(UTC))

    def hear() -> None:
        idle.configure(watched=True)
        with watch("idle"):
            pass

    of_misfortune = [
        *(claim.SQL[name] for name in ("chosen", "chosen_at_once", "attempt")),
        *(claim_governed.SQL[name] for name in ("chosen", "charge_none")),
        *(route.SQL[name] for name in ("keys_of", "which_are_ripe", "ripen_some", "over")),
        *(
            module.SQL["over"]
            for module in (expire, readers, staged, run_statistics, wait, workers)
        ),
        *(run_statistics.SQL[name] for name in ("sources_over", "totals_over")),
        *(groups.SQL[name] for name in ("chosen", "attempt", "held")),
    ]

    def do_duties() -> None:
        for verb in (promote.promote, expire.expire, expire.forget, partitions.ensure, route.tidy):
            on_its_own(verb)
        on_its_own(route.adopt)
        with closing(connect("default", name="operator")) as connection:
            # What only misfortune reaches.
            for statement in of_misfortune:
                names = re.findall(r"%\((\w+)\)s", statement)
                connection.execute(statement, dict.fromkeys(names))
            connection.execute(route.SQL["ring"], {"channel": "none", "key": "none"})
        on_its_own(lease.rescue, max_lost=100)
        on_its_own(workers.forget, silent_for=SOON)
        # As a flush does; the next worker that looks for it brings it back.
        Duty.objects.filter(name="forget").delete()
        # Those that are long, and rest for an hour.
        Duty.objects.filter(name__in=["partitions", "purge"]).update(due_at=Now())

    def keep_schedules() -> None:
        for name, task in (("known", tasks.plain.name), ("unknown", "tests.chaos.tasks.gone")):
            Schedule.objects.get_or_create(
                name=name,
                defaults={"task": task, "every": SECOND, "args": [NOBODY], "channel": "odd"},
            )
        on_its_own(schedule.find_schedule, "known")
        yearly = schedule.DeclaredSchedule(
            "yearly", tasks.plain.name, "0 0 1 1 *", None, "UTC", "[]", "{}", "once", "allow"
        )
        on_its_own(schedule.declare, [yearly])

    def subscribe_some() -> None:
        names = ("odd", "another", "broken", "in SQL")
        for name in names:
            subscriptions.delete(name)
        with closing(connect("default", name="operator")) as connection:
            sequence.advance(connection)
            subscriptions.create("odd", channel="by hand", topics="odd.*", expires_after=SOON)
            subscriptions.create("another", channel="by hand", topics="odd.*", start=_behind())
            subscriptions.create("in SQL", channel="by hand", topics="odd.*", predicate="true")
            for pattern in ("odd.+", "("):
                subscriptions.delete("broken")
                subscriptions.create("broken", channel="by hand")
                Subscription.objects.filter(pk="broken").update(regex=pattern)
                publish("odd.one", NOBODY)
                sequence.advance(connection)
                dispatch.has_work(connection)
                with connection.transaction():
                    dispatch.step(connection)
            dispatch.declare(connection, subscribing.declared("default"))
            dispatch.known(connection, ["odd"])
            nobody = {"name": "nobody", "names": ["nobody"], "predicate": "nobody"}
            given = {**nobody, "after": 0, "upto": 0, "without": [], "position": 0, "error": "odd"}
            # What only misfortune reaches.
            for statement in ("begin", "note_gap", "skip"):
                connection.execute(dispatch.SQL[statement], given)
            for statement in ("leave", "leave_all", "with_predicate"):
                connection.execute(matching.SQL[statement], given)
            predicates.is_on(connection)
            dispatch.place(connection)
            connection.execute(predicates.SQL["user"])
        subscriptions.renew("odd")
        for name in names:
            subscriptions.delete(name)

    def _behind() -> int:
        with closing(connect("default", name="operator")) as connection:
            floor, head = log.bounds(connection)
            return max(floor, head - 2)

    def trace() -> None:
        for look_for in (60, 0):
            trail.trail("odd", "nobody", look_for=look_for)

    def examine() -> None:
        health.examine("default")

    def look_after() -> None:
        odd.configure(retention=1)
        duties = all_duties(database="default", scheduling=scheduling, subscribing=subscribing)
        for report in maintain("default", duties):
            if report.error:
                raise report.error

    def drop_days() -> None:
        with closing(connect("default", name="operator")) as connection:
            if partitions._make(connection, "public", date(2020, 2, 1)):
                Message.objects.filter(pk=plain.using(run_after=3600).enqueue(NOBODY).id).cancel()
                connection.execute(
                    "UPDATE pgqueue_history SET finished_at = '2020-02-01 12:00Z' "
                    "WHERE id IN (SELECT id FROM pgqueue_history WHERE payload->'args'->>0 = '-1' "
                    "LIMIT 1)"
                )
            connection.prepare_threshold = None  # as behind a transaction pooler
            partitions.drop(connection, settings().retention)
            # As where retention waits for exports.
            exported, keep = exports.passed(connection), settings().retention
            exports.behind(connection, exported)
            for window in retention.windows(connection, keep):
                retention.purge(connection, window, keep, exported=exported)

    def write_the_log() -> None:
        publish_many([("odd", NOBODY)] * 3)
        with closing(connect("default", name="operator")) as connection:
            connection.execute("SET default_transaction_isolation = 'repeatable read'")
            sequence.sequence(connection)
        publish("odd", NOBODY)
        publish("odd", NOBODY, key="odd", if_none_since=("odd", "never", NO_EVENT))
        read(topics="odd", limit=5)
        on_its_own(log.position_at, datetime.now(UTC))
        on_its_own(log.is_next_older, after=0, age=SECOND)
        on_its_own(log.meeting, [Filter(where={"n": 1})], [(0, 1)])
        on_its_own(predicates.met, SQLCondition("true", '{"name": "", "params": {}}'), [1])
        on_its_own(event_partitions.ensure)

    def read_for_a_group() -> None:
        reader = uuid4()
        named.make("odd", partitions=2, start="beginning")
        with closing(connect("default", name="operator")) as connection:
            readers.beat(connection, reader, group="odd")
            groups.excess(connection, "odd", has=1)
            groups.take(connection, "odd", reader, held=[])
            groups.renew(connection, "odd", reader)
            groups.readers(connection, ["odd"])
            groups.cursors(connection, "odd")
            groups.commit(connection, "odd", 0, reader, upto=2**40)
            failed = {"failures": 1, "error": "odd", "retry_after": SECOND}
            groups.fail(connection, "odd", 1, reader, upto=2**40, **failed)
            payload = f'{{"args": [{NOBODY}], "kwargs": {{}}}}'
            groups.park(connection, groups.Parked("odd", "", tasks.plain.name, payload, "[]", 1))
            groups.release(connection, "odd", reader, [0, 1])
            readers.retire(connection, reader)
            readers.forget(connection, silent_for=SOON)
        named.resume("odd")
        named.reset("odd", "now")
        named.states()
        named.delete("odd")

    def drop_events() -> None:
        with closing(connect("default", name="operator")) as connection:
            connection.execute(APART)
            ages = {"keep": SECOND, "max_age": SECOND}
            event_retention.waits_for(connection, keep=SECOND)
            event_retention.drop(connection, **ages)
            connection.prepare_threshold = None  # as behind a transaction pooler
            event_retention.drop(connection, **ages)

    def replicate() -> None:
        named = ("odd", "odd")
        with closing(connect("default", name="operator")) as connection:
            slots.drop(connection, *named)
            slots.make_feed(connection, *named)
            replication.take_over(connection, "odd")
            replication.unseen(connection, [1, 2])
            readers.tell(connection)
            slots.drop(connection, *named)

    # Verbs that the others reach by chance only, or never.
    def the_rest() -> None:
        on_its_own(lease.begin, [])
        on_its_own(lease.are_any_over)
        on_its_own(lease.rescue_from, NONE, NONE, max_lost=100)
        on_its_own(lease.are_any_of, NONE, NONE)
        on_its_own(lease.give_back, NONE, NONE, known=[])
        on_its_own(lease.release, [NOBODY])
        on_its_own(lease.let_go, [lease.Lock(0, "0")])
        on_its_own(workers.bury, NONE, NONE)
        on_its_own(workers.ask_to_stop, NONE, 1)
        on_its_own(workers.requests_of, NONE)
        on_its_own(workers.workers_of, NONE)
        on_its_own(workers.waiting, channels=None, excluded=[], limit=10)
        on_its_own(dead.discard, [NOBODY])
        on_its_own(held.commit, [NOBODY])
        on_its_own(promote.may_come, None)
        on_its_own(purge.bounds, "idle", keep=1, older_than=SOON)
        on_its_own(enqueue.reserve, 2)
        on_its_own(notifications.listen)

    return [
        *(hold, deduplicate, fill, keep_order, operate_on_some, write_from_spark, fill_back),
        *(encrypt_anew, operate_on_what_is_locked, wait_for, wait_by_hand, receive_some),
        flow_some,
        *(look, look_over, look_at_flows, hear, do_duties, keep_schedules, trace, examine),
        *(look_after, drop_days, drop_events),
        subscribe_some,
        *(write_the_log, read_for_a_group, replicate, the_rest),
    ]


def clear_away() -> None:
    """End what failures on the way have left."""
    from pgqueue import Channel
    from pgqueue.database.connections import connect
    from pgqueue.models import Schedule, Subscription
    from pgqueue.replication import slots

    with closing(connect("default", name="operator")) as connection:
        slots.drop(connection, "odd", "odd")
    Schedule.objects.all().delete()
    Subscription.objects.all().delete()
    for name in ("odd", "idle", "bounded", "parked", "plenty", "by hand"):
        Channel(name).resume()
        Channel(name).cancel()
        Channel(name).discard()


def survives(verb: Callable[[], object]) -> bool:
    """Whether it did what it does; if not, say why."""
    import psycopg
    from django.db import DatabaseError, InterfaceError, close_old_connections, connection

    from pgqueue.exceptions import PGQueueError

    close_old_connections()
    try:
        verb()
    except (psycopg.Error, DatabaseError, InterfaceError, PGQueueError) as error:
        print(f"{verb.__name__}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        connection.close()
        return False
    return True


def is_news(record: logging.LogRecord) -> bool:
    """Whether it is not the schedule of an unknown task, which is there to fail."""
    return not record.getMessage().startswith("The schedule unknown enqueued nothing")


def main() -> None:
    logging.getLogger("pgqueue").addFilter(is_news)
    stopped: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
    rest = float(sys.argv[1]) if sys.argv[1:] else 0
    each = cycle(verbs())
    while not stopped:
        survives(next(each))
        time.sleep(rest)
    while not survives(clear_away):
        time.sleep(0.1)


if __name__ == "__main__":
    django.setup()
    from tests.chaos import tasks

    main()
