"""Every statement of the engine: that it fits the tables, and how it is planned."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
from pkgutil import iter_modules
from typing import Any
from uuid import uuid4

import pytest
from psycopg import Error

import pgqueue.engine
from pgqueue.conf import settings
from pgqueue.engine import (
    cancel,
    claim,
    claim_governed,
    dead,
    expire,
    held,
    lease,
    promote,
    retention,
    route,
    settle,
)
from pgqueue.engine.claim import Known, Search
from pgqueue.engine.culprits import WHOLE
from pgqueue.engine.settle import Finish
from pgqueue.models import Channel
from pgqueue.options.filters import Filter
from tests.eventually import eventually
from tests.factories import Connection, ask, done, ended, failure, one, run, schedule

pytestmark = pytest.mark.slow

ENGINE = files(pgqueue.engine)


def fragments() -> set[str]:
    """Return the names of statements that are only parts of others."""
    text = "".join(file.read_text() for file in ENGINE.iterdir() if file.name.endswith(".sql"))
    return set(re.findall(r"-- include: (\w+)", text))


def statements() -> Iterator[tuple[str, str]]:
    """Return every statement that is run, by its module's name and its own."""
    parts = fragments()
    for each in iter_modules(pgqueue.engine.__path__):
        module = import_module(f"pgqueue.engine.{each.name}")
        for name, text in getattr(module, "SQL", {}).items():
            if name not in parts:
                yield f"{each.name}.{name}", text


def planned() -> Iterator[Any]:
    """Return those that have a plan: a COPY has none, nor have a SET and what a migration makes."""
    for name, text in statements():
        whole = completed(text)
        # The function that tracks a table is made of parts, by a migration: test_tracking runs it.
        if not (text.startswith(("COPY", "SET ", "CREATE", "DROP")) or re.search(r"{\w+}", whole)):
            yield pytest.param(whole, id=name)


def completed(text: str) -> str:
    """Return a statement with something in the places that are left to its caller."""
    for place, part in PARTS.items():
        text = text.replace(f"{{{place}}}", part)
    return text


PARTS = {
    "condition": Filter(("order.paid", "order.*"), {"total__gte": 1}).sql,
    "table": "pgqueue_event_0",
    "events": "'[]'::jsonb",
    "subscriptions": "'[]'::jsonb",
    "predicate": "true",
}


class TestEveryStatement:
    def test_fits_the_tables_whatever_the_types_of_its_parameters(
        self, connection: Connection
    ) -> None:
        unfit = {}
        for each in planned():
            try:
                # Types are inferred, as they are from an empty list or None.
                assert "cost=" in generic_plan(connection, each.values[0])
            except Error as error:
                unfit[each.id] = str(error)
                connection.execute("DEALLOCATE ALL")

        assert unfit == {}

    def test_asks_for_the_time_of_now(self) -> None:
        old = r"\bnow\s*\(|\bcurrent_(timestamp|time|date)\b|\blocaltime|transaction_timestamp"

        # But one that must not take for over what was not when its transaction began.
        assert failing(lambda text: not re.search(old, text, re.IGNORECASE)) == ["lease.rescue"], (
            "now() stands still in a long transaction and in a TestCase: use statement_timestamp()"
        )

    def test_names_states_as_literals(self) -> None:
        def does(text: str) -> bool:
            compared = re.findall(r"\bstate\s*(?:=|<>|!=|(?:NOT )?IN)\s*(\S+)", text)
            return all(each.startswith(("'", "('", "CASE")) for each in compared)

        assert failing(does) == [], "else PostgreSQL does not use the partial indexes"

    def test_locks_rows_in_the_order_of_their_ids_or_skips_what_is_locked(self) -> None:
        def does(text: str) -> bool:
            parts = re.split(r"\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b", text)
            return all(
                re.match(r"( OF \w+)? (SKIP LOCKED|NOWAIT)", after) or is_in_order(before)
                for before, after in pairwise(parts)
            )

        def is_in_order(before: str) -> bool:
            # In the order of ids, of a group's partitions, of the keys of breakers, or one row.
            ordered = r'\bORDER BY (id|("group", )?partition|(b\.)?key)'
            return bool(re.search(rf"({ordered}|\bLIMIT 1|\bWHERE id = %\(\w+\)s)\s*$", before))

        assert failing(does) == [], (
            "two transactions that lock the same rows in different orders deadlock: "
            "add ORDER BY id, or SKIP LOCKED"
        )

    def test_stores_the_length_of_a_lease_that_it_grants(self) -> None:
        def does(text: str) -> bool:
            grants = re.search(r"UPDATE pgqueue_message\b.*lease_until = (?!NULL)", text, re.S)
            return not grants or "lease_for" in text

        # A hold is no lease of a worker: nothing rescues it.
        assert failing(does) == ["held.extend"], (
            "a rescue cuts a lease that ends later than lease_for from now"
        )

    def test_claims_no_raw_message_without_a_handler_and_no_more_bytes_than_fit(self) -> None:
        def does(text: str) -> bool:
            if "FROM fast" not in text:
                return True
            *picked, _ = text.split("FOR NO KEY UPDATE SKIP LOCKED")
            selected = [before.rpartition("SELECT m.id")[2] for before in picked]
            return "SELECT id FROM fitting" in text and all(
                "%(takes_raw)s" in each and "%(aside)s" in each for each in selected
            )

        claims = [name for name, text in statements() if "FROM fast" in text]

        assert {"claim.claim", "claim.claim_at_once", "claim_governed.claim"} <= set(claims)
        assert failing(does) == [], (
            "each claim includes takes_it, not_left_out and fitting of engine/shared.sql"
        )

    def test_stores_no_infinity(self) -> None:
        assert failing(lambda text: "infinity" not in text) == []

    def test_asks_in_words_that_need_no_escape(self) -> None:
        # A lone % breaks as soon as a statement gets its first parameter.
        assert failing(lambda text: not re.search(r"%(?!\(\w+\)s)", text)) == []


def failing(promise: Callable[[str], bool]) -> list[str]:
    """Return the names of the statements that break a promise."""
    return [name for name, text in statements() if not promise(text)]


def prepare(connection: Connection, text: str) -> int:
    """Prepare a statement without a word on its parameters; return how many it has."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", text)))
    numbered = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", text)
    connection.execute("PREPARE statement AS " + numbered)
    return len(names)


def generic_plan(connection: Connection, text: str) -> str:
    """Return the plan that serves whatever the parameters are."""
    count = prepare(connection, text)
    given = f"({', '.join(['NULL'] * count)})" if count else ""
    with connection.transaction():
        connection.execute("SET LOCAL plan_cache_mode = force_generic_plan")
        lines = connection.execute(f"EXPLAIN EXECUTE statement{given}").fetchall()
        connection.execute("DEALLOCATE statement")
    return "\n".join(line for (line,) in lines)


def custom_plan(connection: Connection, text: str, parameters: Any) -> str:
    """Return the plan for these parameters."""
    lines = connection.execute("EXPLAIN " + text, parameters).fetchall()
    return "\n".join(line for (line,) in lines)


def test_no_index_has_the_end_of_leases(connection: Connection) -> None:
    rows = connection.execute(
        "SELECT indexname FROM pg_indexes "
        "WHERE tablename = 'pgqueue_message' AND indexdef ~ 'lease_(until|for)'"
    ).fetchall()

    assert rows == [], "each heartbeat would have to write to it, even to a partial one"


def test_no_column_is_filled_with_the_transactions_time(connection: Connection) -> None:
    rows = connection.execute(
        "SELECT adrelid::regclass::text, pg_get_expr(adbin, adrelid) FROM pg_attrdef "
        "WHERE adrelid::regclass::text LIKE 'pgqueue%' "
        "AND pg_get_expr(adbin, adrelid) ~* '\\mnow\\(|current_(time|date)|localtime'"
    ).fetchall()

    assert rows == []


def test_keys_and_channels_are_sorted_as_python_sorts_them(connection: Connection) -> None:
    rows = connection.execute(
        "SELECT attrelid::regclass::text, attname FROM pg_attribute a "
        "JOIN pg_class c ON c.oid = attrelid JOIN pg_collation l ON l.oid = attcollation "
        "WHERE relname IN ('pgqueue_message', 'pgqueue_history', 'pgqueue_channel', "
        "'pgqueue_event', 'pgqueue_event_0', 'pgqueue_event_inbox', 'pgqueue_group', "
        "'pgqueue_cursor', 'pgqueue_reader') "
        "AND attname IN ('channel', 'key', 'dedupe_key', 'name', 'topic', 'group') "
        "AND collname <> 'C'"
    ).fetchall()

    assert rows == []


SHAPES = {
    "one lane": "'default', ''",
    "a lane each": "'default', n::text",
    "a thousand lanes": "'default', (n % 1000)::text",
}
"""Channel and key of message number n."""


def fill(
    connection: Connection, shape: str, count: int = 200_000, *, governed: str = "false"
) -> None:
    connection.execute("TRUNCATE pgqueue_message")
    connection.execute(
        f"INSERT INTO pgqueue_message "  # noqa: S608
        f"(channel, key, task, state, max_attempts, governed, ordered) "
        f"SELECT {SHAPES[shape]}, 't', 'ready', 5, {governed}, {governed} AND n % 5 = 0 "
        f"FROM generate_series(1, {count}) n"
    )


STATISTICS = ("SELECT 'none yet'", "ANALYZE pgqueue_message")


def is_vacuumed(connection: Connection) -> bool:
    connection.execute("VACUUM (ANALYZE, TRUNCATE) pgqueue_message")
    return bool(one(connection, "SELECT pg_relation_size('pgqueue_message')") == (0,))


class TestAPlan:
    """How statements go about their work where 200 000 messages wait."""

    @pytest.fixture(autouse=True)
    def _without_autovacuum(self, connect: Callable[..., Connection]) -> Iterator[None]:
        keeper = connect()
        keeper.execute("ALTER TABLE pgqueue_message SET (autovacuum_enabled = off)")
        # As in a database whose statistics are not gathered yet.
        keeper.execute("DELETE FROM pg_statistic WHERE starelid = 'pgqueue_message'::regclass")
        yield
        keeper.execute("TRUNCATE pgqueue_message")
        keeper.execute("ALTER TABLE pgqueue_message RESET (autovacuum_enabled)")

    @pytest.mark.parametrize("shape", SHAPES)
    def test_of_a_claim_is_by_indexes_alone(self, connection: Connection, shape: str) -> None:
        fill(connection, shape)
        moment = datetime(2025, 1, 1, tzinfo=UTC)
        known = [Known("default", str(n), 0, moment, n, 5) for n in range(100)]

        plans = []
        for gather in STATISTICS:
            connection.execute(gather)
            for asked in (
                {"searched": [Search("default", None, 500, 500)]},
                {"searched": [Search("default", "5", 500, 500)]},
                {"known": known},
            ):
                plans += explain(connection, ask, limit=500, **asked)
            plans += explain(connection, claim.claim_at_once, "default", **AT_ONCE)

        for plan in plans:
            assert not read_whole(plan)
            assert not sorted_backlog(plan)

    @pytest.mark.nightly
    def test_of_claims_is_by_indexes_alone_where_a_million_wait(
        self, connection: Connection
    ) -> None:
        fill(connection, "a thousand lanes", 1_000_000, governed="n % 2 = 0")
        connection.execute(
            "INSERT INTO pgqueue_lane (channel, key, state, turn_at, tat) "
            "SELECT 'default', n::text, CASE WHEN n < 1000 THEN 'runnable' ELSE 'saturated' END, "
            "clock_timestamp(), 'epoch' FROM generate_series(0, 100000) n"
        )
        connection.execute(
            "INSERT INTO pgqueue_policy (channel, scope, key, max_running, rate) "
            "VALUES ('default', 'channel', '', 900, 1000), ('default', 'each', '', 2, NULL), "
            "('default', 'key', '7', NULL, 5)"
        )
        asked = {
            "channel": "default",
            "channels": ["default"],
            "excluded": [],
            "limit": 500,
            "size": 2**26,
            "lanes": 500,
            "after": datetime.now(UTC) - timedelta(hours=1),
            "until": None,
            "keys": [str(n) for n in range(500)],
            "aside_channels": [],
            "aside_keys": [],
            "worker_id": uuid4(),
            "is_pooled": False,
            "takes_raw": False,
            "lease": timedelta(seconds=30),
            "started": 500,
            "heaviest": 5,
            "next": 1,
            "gate_places": 500,
            "gate_tokens": 500,
            "gate_running": 900,
            "gate_burst": 100,
            "is_urgent": False,
            **WHOLE._asdict(),
        }

        plans = []
        for gather in (*STATISTICS, "ANALYZE pgqueue_lane, pgqueue_policy, pgqueue_gate"):
            connection.execute(gather)
            plans += explain(connection, ask, searched=[Search("default", "5", 500, 500)])
            for module, name in STEPS:
                text = module.SQL[name]
                plans += [custom_plan(connection, text, asked), generic_plan(connection, text)]

        for plan in plans:
            assert not read_whole(plan)
            assert not sorted_backlog(plan)

    def test_of_the_other_verbs_is_by_indexes_alone(self, connection: Connection) -> None:
        fill(connection, "a thousand lanes")
        claims = run(connection, 300, channel="other")
        ids = schedule(connection, 300)

        plans = []
        for gather in STATISTICS:
            connection.execute(gather)
            plans += [
                *explain(connection, settle.complete, [done(each) for each in claims]),
                *explain(connection, settle.retry, [failure(each) for each in claims]),
                *explain(connection, settle.bury, [failure(each) for each in claims]),
                *explain(connection, settle.release, claims),
                *explain(connection, lease.extend, claims, lease=timedelta(seconds=30)),
                *explain(connection, lease.lock, claims[0]),
                *explain(connection, lease.lock_all, claims, patience="1s"),
                *explain(connection, lease.rescue, max_lost=3),
                *explain(connection, promote.promote, limit=1000),
                *explain(connection, promote.next_due),
                *explain(connection, promote.run_now, ids),
                *explain(connection, cancel.cancel, ids),
                *explain(connection, dead.replay, ids),
                *explain(connection, dead.discard, ids),
                *explain(connection, claim.channels, excluded=["a"]),
                *explain(connection, claim.claim_at_once, "default", **AT_ONCE),
                *explain(connection, expire.expire),
                *explain(connection, dead.discard_old, keep=timedelta(days=90)),
                *explain(connection, held.commit, ids),
                *explain(connection, held.abandon, ids),
                *explain(connection, held.extend, ids, hold=timedelta(seconds=30)),
                *explain(connection, settle.finish, [Finish(claims[0], "discarded", None, 0.0)]),
            ]

        for plan in plans:
            assert not read_whole(plan)

    def test_made_while_there_was_nothing_is_by_indexes_too(self, connection: Connection) -> None:
        claims = run(connection, 2)
        settle.complete(connection, [done(each) for each in claims])
        # An autoanalyze elsewhere may keep the dead rows for a moment.
        eventually(lambda: is_vacuumed(connection))

        plans = [
            *explain(connection, ask, searched=[Search("default", None, 5, 5)], limit=5),
            *explain(connection, claim.channels, excluded=["a"]),
            *explain(connection, claim.claim_at_once, "default", **AT_ONCE),
            *explain(connection, settle.complete, [done(each) for each in claims]),
            *explain(connection, settle.retry, [failure(each) for each in claims]),
            *explain(connection, lease.extend, claims, lease=timedelta(seconds=30)),
            *explain(connection, lease.rescue, max_lost=3),
            *explain(connection, promote.promote, limit=1000),
        ]

        for plan in plans:
            assert not read_whole(plan)

    @pytest.mark.parametrize("gather", STATISTICS, ids=["none yet", "analyzed"])
    def test_of_who_knows_ids_never_reads_all_that_runs(
        self, connection: Connection, gather: str
    ) -> None:
        # By the statistics next to nothing runs. That its index is full of what is dead, and stays
        # so while a snapshot is pinned, the planner doesn't know.
        fill(connection, "a thousand lanes", 30_000)
        for state in ("running", "dead", "scheduled", "ready"):
            connection.execute("UPDATE pgqueue_message SET state = %s", [state])
        connection.execute(gather)
        claims = run(connection, 300, channel="other")
        ids = [each.id for each in claims]

        plans = [
            *explain(connection, lease.extend, claims, lease=timedelta(seconds=30)),
            *explain(connection, lease.valid, claims),
            *explain(connection, lease.lock, claims[0]),
            *explain(connection, lease.lock_all, claims, patience="1s"),
            *explain(connection, lease.begin, claims),
            *explain(connection, settle.complete, [done(each) for each in claims]),
            *explain(connection, settle.retry, [failure(each) for each in claims]),
            *explain(connection, settle.bury, [failure(each) for each in claims]),
            *explain(connection, settle.release, claims),
            *explain(connection, cancel.cancel, ids),
            *explain(connection, promote.run_now, ids),
            *explain(connection, dead.replay, ids),
            *explain(connection, dead.discard, ids),
        ]
        fence = {"id": ids[0], "attempt": 1, "worker_id": uuid4()}
        options = {"extend": timedelta(seconds=30), "extra_attempts": 0}
        new = dict.fromkeys(["progress", "payload", "body"])
        for name in ("prolong", "checkpoint"):
            plans.append(custom_plan(connection, lease.SQL[name], {**fence, **options, **new}))
            plans.append(generic_plan(connection, lease.SQL[name]))

        for plan in plans:
            assert not re.search(r"using pgqueue_message_(running|dead|due)\b", plan), plan

    def test_of_a_rescue_reads_what_runs_and_no_more(self, connection: Connection) -> None:
        # The statistics are of a moment when most of the table was running. All of those would
        # be over their leases by now: to read the table from its front seems the shortest way
        # to a batch, and is the longest, every second, where none of them is.
        fill(connection, "a thousand lanes", 30_000)
        connection.execute(
            "UPDATE pgqueue_message SET state = 'running', lease_until = clock_timestamp() "
            "WHERE id % 2 = 0"
        )
        connection.execute("ANALYZE pgqueue_message")

        plans = explain(connection, lease.rescue, max_lost=3)

        for plan in plans:
            assert not read_whole(plan)

    def test_of_a_purge_reads_the_blocks_of_its_hour(self, connection: Connection) -> None:
        today = datetime.now(UTC).replace(hour=0, minute=0)
        ended(connection, 20_000, at=today - timedelta(hours=12))
        for name in "ab":
            Channel.objects.create(name=name, retention=timedelta(hours=1))
        kept = settings().retention
        asked = {
            **retention.given(kept),
            **retention.EVERYTHING._asdict(),
            **WHOLE._asdict(),
            "keep": timedelta(hours=1),
            "rules": "",
            "reach": 10_000,
            "limit": 2_000,
            "after": today - timedelta(hours=1),
            "before": today - timedelta(minutes=1),
        }

        plans = []
        for gather in ("SELECT 'none yet'", "ANALYZE pgqueue_history"):
            connection.execute(gather)
            plans += [
                custom_plan(connection, retention.SQL[name], asked) for name in ("reach", "purge")
            ]

        for plan in plans:
            assert not re.search(r"Seq Scan on pgqueue_history", plan), plan
            assert len(set(re.findall(r"on (pgqueue_history_\d+)", plan))) == 1, plan
            assert "finished_at" in plan

    def test_of_a_purge_skips_other_days_though_it_is_made_for_any(
        self, connection: Connection
    ) -> None:
        now = datetime.now(UTC)
        asked = ["interval '1 hour'", f"'{now - timedelta(minutes=2)}'", f"'{now}'"]

        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(
            "PREPARE statement (interval, timestamptz, timestamptz) AS "
            + retention.SQL["reach"]
            .replace("%(after)s", "$2")
            .replace("%(before)s", "$3")
            .replace("%(reach)s", "extract(epoch FROM $1)::int")
        )
        lines = connection.execute(f"EXPLAIN EXECUTE statement ({', '.join(asked)})").fetchall()
        connection.execute("DEALLOCATE statement")  # another test gets this session

        assert "Subplans Removed" in "".join(line for (line,) in lines)

    def test_of_a_claim_takes_what_is_ready_from_its_index(self, connection: Connection) -> None:
        (plan, _) = explain(connection, ask, searched=[Search("default", None, 5, 5)], limit=5)

        assert plan.count("using pgqueue_message_free") == 3


GOVERNED = (
    *("gate", "room", "lanes", "are_left", "claim", "charge"),
    *("urgent_lanes", "claim_urgent"),
)
STEPS = [
    *((claim_governed, name) for name in GOVERNED),
    *((route, name) for name in ("channels", "strays", "ripen", "mark_gates")),
]
"""What claims of governed lanes are made of."""
AT_ONCE = {"limit": 10, "worker_id": uuid4(), "lease": timedelta(seconds=30)}


def explain(
    connection: Connection, verb: Callable[..., Any], *arguments: Any, **options: Any
) -> list[str]:
    """Return the plans of what a verb runs, for these parameters and for any; run nothing."""
    plans = []

    class Explaining:
        """A connection in which nothing is found."""

        info = connection.info
        autocommit = True
        prepare_threshold = 5

        def execute(self, text: str, parameters: Any = None) -> Explaining:
            if "'lock_timeout'" in text:
                return self  # reads no table
            title = f"-- {verb.__name__}:\n"
            plans.append(title + custom_plan(connection, text, parameters))
            plans.append(title + generic_plan(connection, text))
            return self

        def transaction(self) -> AbstractContextManager[None]:
            return nullcontext()

        def fetchone(self) -> None:
            return None

        def fetchall(self) -> list[Any]:
            return []

        def __iter__(self) -> Iterator[Any]:
            return iter(())

    verb(Explaining(), *arguments, **options)
    return plans


def read_whole(plan: str) -> str:
    """Return the plan where it reads all messages."""
    return plan if re.search(r"Seq Scan on pgqueue_(message|lane|bell)", plan) else ""


def sorted_backlog(plan: str) -> str:
    """Return the keys by which the plan sorts more than what a claim takes."""
    small = (
        r"(?:taken|taken_weights|allowed|room|picked|weighed|rung)(?:_\d+)?\."
        r"|\(\(.*scope = |\(\(p\.scope|p\.channel"
        r"|\(LEAST\("  # of the urgent messages of a lane, found by their ids
        r"|(?:lane\.)?wake_at|pgqueue_lane"
    )
    return "; ".join(re.findall(rf"Sort Key: (?!{small}).*", plan))
