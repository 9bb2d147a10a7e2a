"""Each CHECK constraint of each of our tables refuses what it is there for, column by column."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import pytest
from psycopg.errors import CheckViolation

from tests.factories import Connection
from tests.test_extremes import BUCKETS, columns, insert, plain

Change: TypeAlias = dict[str, str | None]
"""What a plain row has instead, by column."""
Rule: TypeAlias = dict[str, tuple[list[Change], list[Change]]]
"""By column: rows that a constraint refuses, and rows that it takes."""

MOST = 2**62


def each(names: str, refused: Iterable[str], taken: Iterable[str] = ()) -> Rule:
    """Return a rule that is the same for each of some columns."""
    return {
        name: ([{name: value} for value in refused], [{name: value} for value in taken])
        for name in names.split()
    }


def between(names: str, least: int, most: int | None = None) -> Rule:
    """Return a rule for whole numbers."""
    refused, taken = [least - 1], [least]
    if most is not None:
        refused.append(most + 1)
        taken.append(most)
    return each(names, map(str, refused), map(str, taken))


def times(names: str) -> Rule:
    early, late = "0001-01-02 23:59:59.999999+00", "9999-12-29 00:00:00.000001+00"
    taken = ["0001-01-03 00:00+00", "9999-12-29 00:00+00"]
    return each(names, ["-infinity", early, late, "infinity"], taken)


def while_paused(rule: Rule) -> Rule:
    """Return a rule for columns that only a paused channel has."""
    return {
        name: tuple([{**change, "paused": True} for change in changes] for changes in both)
        for name, both in rule.items()
    }


def one_of(name: str, *words: str) -> Rule:
    return each(name, ["", "other"], words)


def texts(names: str, most: int, *, least: int = 0) -> Rule:
    refused = ["x" * (most + 1), "é" * (most // 2) + "x"] if most else []
    return each(names, [*refused, *([""] if least else [])], ["x" * (most or 1)])


def objects(names: str) -> Rule:
    return each(names, ["null", "[]", "7", '"a"'], ["{}", '{"a": 1}'])


def lists(names: str) -> Rule:
    return each(names, ["null", "{}", "7", '"a"'], ["[]"])


def flat(names: str, value: str) -> Rule:
    return each(names, ["{NULL}", f"{{{value},NULL}}", f"{{{{{value}}},{{{value}}}}}"])


def sums(most: int, longest: str) -> Rule:
    """Return the rule of a row of statistics."""
    counted = "succeeded failed dead deferred discarded cancelled lost released"
    buckets = [
        *("{}", BUCKETS.replace("{", "{0,"), f"[0:23]={BUCKETS}"),
        *(BUCKETS.replace("{0", f"{{{number}") for number in (-1, most + 1)),
    ]
    full = BUCKETS.replace("{0", f"{{{most}")
    return {
        **between(counted, 0, most),
        **each("waited ran", [f"-1{longest}", f"1{longest}", "NaN"], ["0"]),
        **each("waits runs", buckets, [BUCKETS, full]),
    }


def in_two_rows() -> Rule:
    rows = ",".join(["0"] * 12)
    refused = [f"{{{{{rows}}},{{{rows}}}}}", BUCKETS.replace("{0", "{NULL")]
    return each("waits runs", refused, [BUCKETS])


LASTING = ["-1 microsecond", "36525 days 1 microsecond"]
RULES: dict[str, Rule] = {
    "backfill_json": lists("attempts"),
    "backfill_numbers": between("place number done total", 0),
    "backfill_times": times("created_at ended_at"),
    "bell_arrays": flat("ended", "1"),
    "bell_names": {**texts("channel", 200), **texts("key", 1000)},
    "bell_numbers": between("id", 1),
    "bell_woken": flat("woken", "1"),
    "blocked_on_failure": one_of("on_failure", "wait", "cancel", "run"),
    "breaker_arrays": each(
        "failed_at",
        [
            "{NULL}",
            "{2026-01-02,NULL}",
            "{{2026-01-02},{2026-01-03}}",
            f"{{{','.join(['2026-01-02'] * 1001)}}}",
        ],
        ["{}", f"{{{','.join(['2026-01-02'] * 1000)}}}"],
    ),
    "breaker_names": {**texts("channel", 200, least=1), **texts("key", 1000)},
    "breaker_numbers": {**between("probe_id", 1, MOST), **between("probe_attempt", 0)},
    "breaker_times": {
        **times("open_until"),
        **each(
            "failed_at",
            ["{infinity}", "{2026-01-02,-infinity}", "{0001-01-02 23:59:59.999999+00}"],
            ["{0001-01-03 00:00+00,9999-12-29 00:00+00}"],
        ),
    },
    "channel_age_after": each("age_after", ["0", *LASTING], ["1 microsecond", "36525 days"]),
    "channel_retention": each(
        "dead_retention retention retention_cancelled retention_discarded retention_expired "
        "retention_succeeded",
        ["0", *LASTING],
        ["1 microsecond", "36525 days"],
    ),
    "channel_times": while_paused(times("paused_until")),
    "cursor_numbers": {
        **between("partition failures", 0),
        **between("position suspect", 0, MOST),
        **between("lost", 0, 10**9),
    },
    "cursor_times": times("begun_at lease_until retry_at updated_at"),
    "dedupe_times": times("expires_at"),
    "duty_times": times("due_at failing_since ran_at upto"),
    "event_json": objects("metadata"),
    "event_numbers": each("position", ["-1", str(MOST + 1)]),
    "event_times": times("created_at"),
    "event_inbox_json": objects("metadata"),
    "event_inbox_names": {**texts("topic", 200), **texts("key", 1000)},
    "event_inbox_numbers": between("id", 1),
    "event_inbox_times": times("created_at"),
    "event_inbox_topic": each("topic", [""], ["a"]),
    "export_names": texts("database", 100),
    "export_numbers": {
        **between("batch event_batch", -1, MOST),
        **between("event_position message_id txid", 0, MOST),
    },
    "export_times": times("exported_at"),
    "flow_json": objects("names"),
    "flow_numbers": between("id", 1, MOST),
    "flow_times": times("created_at ended_at"),
    "gate_heaviest": between("heaviest", 1, 100),
    "gate_times": times("tat wake_at"),
    "group_partitions": between("partitions", 1, 1024),
    "group_times": times("created_at"),
    "history_json": {**objects("metadata"), **lists("errors")},
    "history_numbers": {
        **between("id", 1, MOST),
        **between("txid", 0, MOST),
        **between("attempt failures lost max_attempts", 0),
    },
    "history_outcome": one_of("outcome", "succeeded", "cancelled", "discarded", "expired"),
    "history_times": times(
        "cancel_requested_at claimed_at created_at expires_at finished_at run_at started_at"
    ),
    "lane_heaviest": between("heaviest", 1, 100),
    "lane_state": one_of("state", "idle", "runnable", "saturated", "throttled"),
    "lane_pause": times("paused_until"),
    "lane_times": times("tat turn_at wake_at"),
    "lane_urgent_times": times("urgent_at"),
    "log_floor_numbers": between("position", 0, MOST),
    "message_json": {**objects("metadata"), **lists("errors")},
    "message_names": {
        **texts("channel", 200, least=1),
        **texts("dedupe_key key task", 1000),
    },
    "message_numbers": {
        **between("id", 1, MOST),
        **between("attempt failures lost max_attempts", 0),
        **each(
            "lease_for",
            ["-36525 days -1 microsecond", "36525 days 1 microsecond"],
            ["-36525 days", "36525 days"],
        ),
    },
    "message_priority": between("priority", -100, 100),
    "message_state": one_of("state", "held", "scheduled", "ready", "running", "dead"),
    "message_times": times(
        "cancel_requested_at claimed_at created_at expires_at lease_until run_at started_at"
    ),
    "operation_numbers": between("message_id", 1),
    "operation_times": times("created_at"),
    "policy_breaker": {
        "breaker_failures": (
            [{"breaker_failures": each} for each in ("0", "1001", None)],
            [
                {"breaker_failures": "1"},
                {"breaker_failures": "1000"},
                {"breaker_failures": None, "breaker_within": None, "breaker_pause": None},
            ],
        ),
        **{
            name: (
                [{name: each} for each in ("0", "366 days 1 microsecond", None)],
                [{name: "1 microsecond"}, {name: "366 days"}],
            )
            for name in ("breaker_within", "breaker_pause")
        },
    },
    "policy_burst": between("burst", 1),
    "policy_max_running": between("max_running", 1),
    "policy_max_size": between("max_size", 1),
    "policy_pace": {
        # A microsecond between two, and a century of what was saved up, are the ends.
        "rate": ([{"rate": "2", "per": "1 microsecond"}], [{"rate": "1", "per": "1 microsecond"}]),
        "per": ([{"rate": "1", "per": "366 days", "burst": "101"}], [{"per": "366 days"}]),
        "burst": ([{"rate": "1", "per": "1 day", "burst": "36601"}], [{"burst": None}]),
    },
    "policy_per": {
        "per": (
            [{"rate": None, "per": "0"}, {"rate": None, "per": "366 days 1 microsecond"}],
            [{"rate": None, "per": "1 microsecond"}, {"rate": None, "per": "366 days"}],
        )
    },
    "policy_rate": {
        "rate": (
            [{"rate": "9e-7", "per": "1 microsecond"}, {"rate": "1000001"}],
            [{"rate": "1e-6", "per": "1 microsecond"}, {"rate": "1e6"}],
        )
    },
    "policy_scope": {
        "key": (
            [{"scope": "key", "key": ""}, {"scope": "channel", "key": "a"}],
            [{"scope": "key", "key": "a"}, {"scope": "channel", "key": ""}],
        ),
        "scope": (
            [{"scope": "each", "key": "a"}, {"scope": "other", "key": ""}],
            [{"scope": "each", "key": ""}],
        ),
    },
    "policy_weight": {
        "weight": (
            [{"scope": "each", "weight": "0"}, {"scope": "each", "weight": "101"}],
            [{"scope": "each", "weight": "1"}, {"scope": "each", "weight": "100"}],
        ),
        "scope": ([{"scope": "channel", "weight": "1"}], [{"scope": "channel", "weight": None}]),
    },
    "purged_numbers": each("keep", LASTING, ["0", "36525 days"]),
    "purged_times": times("until"),
    "reader_times": times("feed_until last_seen notify_until"),
    "schedule_arrays": flat("superseded", "a"),
    "schedule_every": each(
        "every", ["0", "999999 microseconds", "366 days 1 microsecond"], ["1 second", "366 days"]
    ),
    "schedule_missed": one_of("missed", "skip", "once", "all"),
    "schedule_names": texts("name", 0, least=1),
    "schedule_numbers": between("priority", -100, 100),
    "schedule_overlap": one_of("overlap", "allow", "skip", "one"),
    "schedule_times": times("next_at seen_at ticked_at"),
    "schedule_when": {
        "cron": (
            [{"cron": "* * * * *", "every": "1 day"}],
            [{"cron": "* * * * *", "every": None}],
        ),
        "every": ([{"cron": "", "every": None}], [{"cron": "", "every": "1 day"}]),
    },
    "staged_json": objects("metadata"),
    "staged_numbers": {**between("priority", -100, 100), **between("max_attempts", 1)},
    "staged_weight": between("weight", 1, 100),
    "staged_times": times("expires_at run_at"),
    "statistic_arrays": in_two_rows(),
    "statistic_numbers": sums(10**15, "e22"),
    "statistic_times": times("at"),
    "append_lock_names": {**texts("topic", 200, least=1), **texts("key", 1000)},
    "append_lock_times": times("used_at"),
    "signal_lengths": {**texts("name", 210), **texts("dedupe_id", 200)},
    "run_log_numbers": {**between("message_id", 1), **between("attempt", 0)},
    "signal_name": texts("name", 0, least=1),
    "signal_numbers": between("id message_id sender_id", 1),
    "signal_times": times("sent_at"),
    "step_arrays": flat("signals", "a"),
    "step_kind": one_of("kind", "step", "atomic", "value", "sleep", "signal", "event", "call"),
    "step_lengths": texts("name", 200),
    "step_name": texts("name", 0, least=1),
    "step_numbers": {**between("message_id", 1), **between("number attempt tries", 0)},
    "step_state": one_of("state", "done", "failed", "retrying", "waiting"),
    "step_times": times("started_at finished_at until"),
    "event_wait_json": objects("vars"),
    "event_wait_lengths": {
        **texts("step", 200),
        **texts("topic", 200),
        **texts("key", 1000),
    },
    "event_wait_numbers": {**between("message_id", 1), **between("position", 0, MOST)},
    "subscription_arrays": flat("exact superseded topics", "a"),
    "subscription_attempts": between("max_attempts", 1),
    "subscription_batch": between("batch", 1, 10_000),
    "subscription_json": objects("metadata vars where"),
    "subscription_names": texts("channel name", 0, least=1),
    "subscription_numbers": {
        **between("position", 0, MOST),
        **each("expires_after", LASTING, ["0", "36525 days"]),
    },
    "subscription_priority": between("priority", -100, 100),
    "subscription_weight": between("weight", 1, 100),
    "subscription_times": times("created_at expires_at seen_at"),
    "tally_arrays": in_two_rows(),
    "tally_numbers": sums(10**12, "e19"),
    "tally_names": texts("tenant", 1000),
    "tally_times": times("at"),
    "tally_batch_numbers": between("number", 0, MOST),
    "tally_batch_times": times("at"),
    "task_pause_times": times("until"),
    "tenant_total_names": texts("tenant", 1000, least=1),
    "tenant_total_numbers": between(
        "succeeded failed dead deferred discarded cancelled", 0, 10**18
    ),
    "tenant_total_times": times("counted_at"),
    "total_arrays": in_two_rows(),
    "total_numbers": sums(10**18, "e25"),
    "total_times": times("counted_at"),
    "waiter_numbers": between("id", 1),
    "waiter_times": times("until"),
    "webhook_json": {**objects("headers"), **lists("rotated")},
    "webhook_numbers": {
        **between("failures", 0),
        **each("timeout", LASTING, ["0", "36525 days"]),
    },
    "webhook_texts": texts("secret url", 0, least=1),
    "webhook_times": times("failing_since"),
    "worker_arrays": flat("channels excluded", "a"),
    "worker_json": objects("info"),
    "worker_times": times("last_seen notify_until started_at"),
    "write_numbers": between("rows", 0),
    "write_times": times("committed_at"),
}
"""What each constraint refuses, by its name without `pgqueue_`: a new constraint is added here."""
NO_PARTITION = {("event_numbers", "position"), ("history_times", "finished_at")}
"""Columns by which a table is partitioned: no partition takes the refused values, either."""


@pytest.fixture
def stored(queue: Connection) -> dict[str, tuple[str, list[str]]]:
    """The constraints of the database: of each, its table, and the columns that it reads."""
    rows = queue.execute(
        """SELECT k.conname, c.relname,
                  ARRAY(SELECT a.attname::text FROM pg_attribute a
                        WHERE a.attrelid = c.oid AND a.attnum = ANY (k.conkey) ORDER BY 1)
           FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
           WHERE k.contype = 'c' AND c.relname ~ '^pgqueue_' AND NOT c.relispartition
             AND c.relname <> 'pgqueue_identity'  -- of which there is one row only"""
    ).fetchall()
    return {name.removeprefix("pgqueue_"): (table, its) for name, table, its in rows}


def test_each_constraint_has_a_rule_for_each_column_that_it_reads(
    stored: dict[str, tuple[str, list[str]]],
) -> None:
    assert {name: its for name, (_, its) in stored.items()} == {
        name: sorted(rule) for name, rule in RULES.items()
    }


@pytest.mark.parametrize("name", RULES)
def test_a_constraint_refuses_each_row_that_breaks_it_and_no_other(
    queue: Connection, stored: dict[str, tuple[str, list[str]]], name: str
) -> None:
    assert name in stored, "There is no such constraint any more."
    table = stored[name][0]

    for column, (refused, taken) in RULES[name].items():
        for change in refused:
            said = refusal(queue, table, change)
            wanted = None if (name, column) in NO_PARTITION else f"pgqueue_{name}"
            assert said == (True, wanted), (change, said)
        for change in taken:
            said = refusal(queue, table, change)
            assert said == ((name, column) in NO_PARTITION, None), (change, said)


def refusal(queue: Connection, table: str, change: Change) -> tuple[bool, str | None]:
    """Return whether a row is refused, and by which constraint; it is not kept."""
    row: Any = {column.name: plain(column) for column in columns()[table]}
    generated = {column.name for column in columns()[table] if column.is_generated}
    values = {key: value for key, value in {**row, **change}.items() if key not in generated}
    try:
        with queue.transaction(force_rollback=True):
            if table == "pgqueue_webhook":  # which is the second half of a subscription
                first = {each.name: plain(each) for each in columns()["pgqueue_subscription"]}
                first["name"] = values["subscription_id"]
                queue.execute(insert("pgqueue_subscription", first))
            queue.execute(insert(table, values))
    except CheckViolation as error:
        return True, error.diag.constraint_name
    return False, None
