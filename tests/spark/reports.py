"""Reports to draw: a busy week with everything that is hard to show, and an empty one.

`python -m tests.spark.reports FILE` writes the page of the first.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pgqueue.spark.page import render
from pgqueue.spark.report import Report

UNTIL = datetime(2026, 11, 24, 9, 30, tzinfo=UTC)
DAYS = 6
BUCKET = 600.0

HTML = "<script>alert('x')</script><img src=x onerror=alert(1)> & \"quotes\" </title></style>"
ARABIC = "خطأ في الاتصال بالخادم \u202e"
EMOJI = "👩‍👩‍👧‍👦 🧨 failed"
LONG = "shop.orders.fulfilment.tasks." + "recalculate_" * 14 + "totals"
NASTY = [HTML, ARABIC, EMOJI, LONG, "{{ 7 * 7 }} {% raw %} ${x}", "null\x00byte\x1b[31m", "'"]

CHANNELS = ["default", "mail", "images", "webhooks", "reports", "imports"]
TASKS = [
    "shop.tasks.send_receipt",
    "shop.tasks.resize_image",
    "shop.webhooks.deliver",
    "reports.tasks.monthly_statement",
    "catalog.importing.tasks.import_supplier_catalog",
    "search.tasks.reindex",
    "(raw)",
    LONG,
]
GROUP = (
    "messages succeeded dead success_rate retry_rate death_rate loss_rate wait_p50_s wait_p95_s "
    "wait_p99_s run_p50_s run_p95_s run_p99_s run_total_s"
)
TABLES = f"""
summary: messages succeeded dead cancelled discarded expired per_s success_rate retry_rate \
death_rate loss_rate wait_p50_s wait_p95_s wait_p99_s run_p50_s run_p95_s run_p99_s total_p99_s
by_channel: channel {GROUP}
by_task: task {GROUP}
by_key: key {GROUP}
by_hour: hour {GROUP}
over_time: at arrived ended failed_attempts backlog running wait_p50_s wait_p99_s
slo: channel objective_s target messages within attained budget_left worst_burn
slo_burn: channel at burn
slowest_tasks: task messages run_p50_s run_p99_s run_total_s share
noisiest_keys: channel key messages share run_total_s run_share wait_p99_s_of_others failures
flows: flow flows failed messages duration_p50_s duration_p95_s duration_max_s
flow_tasks: flow task messages waited_total_s ready_total_s run_total_s share
flow_paths: flow flow_id step message_id task waited_s ready_s run_s
waits: task step kind waits wait_p50_s wait_p95_s wait_max_s wait_total_s share
errors: error_class place pattern attempts messages tasks first_at last_at example
retry_storms: task began_at ended_at attempts retries retries_per_message \
usual_retries_per_message
what_if: scenario kind workers wait_p50_s wait_p99_s total_p99_s utilisation
change_points: task at before_p50_s after_p50_s ratio messages_before messages_after
task_durations: task at p50_s
forecast: at kind backlog low high
"""
COLUMNS: dict[str, list[str]] = {
    name: columns.split()
    for name, _, columns in (each.partition(":") for each in TABLES.strip().splitlines())
}
"""The columns of every table, as `page` expects them."""


def empty() -> Report:
    """Return a report of a queue in which nothing ended."""
    facts = {
        "title": "Nothing yet",
        "made_at": UNTIL,
        "since": UNTIL - timedelta(days=1),
        "until": UNTIL,
        "source": "live",
        "percentiles": "exact",
        "messages": 0,
        "simulation": {"measured_p99_s": None, "simulated_p99_s": None, "error": None},
        "bucket_s": 60.0,
    }
    return Report(facts, {name: pd.DataFrame(columns=found) for name, found in COLUMNS.items()})


def busy(seed: int = 1) -> Report:
    """Return a report of about a million messages, with nasty names and missing values."""
    random = np.random.default_rng(seed)
    over_time = _over_time(random)
    tables = {
        "over_time": over_time,
        "by_channel": _groups(random, "channel", [*CHANNELS, *NASTY]),
        "by_task": _groups(random, "task", [*TASKS, *(f"app.tasks.job_{n}" for n in range(30))]),
        "by_key": _groups(random, "key", [f"tenant-{n}" for n in range(195)] + [HTML, ARABIC]),
        "by_hour": _groups(random, "hour", list(range(24))),
        **_objectives(random),
        **_changes(random),
        "slowest_tasks": _slowest(random),
        "noisiest_keys": _noisiest(random),
        **_flows(random),
        "waits": _waits(random),
        "errors": _errors(random),
        "retry_storms": _storms(),
        "what_if": _what_if(),
        "forecast": _forecast(random, over_time),
    }
    messages = int(over_time["ended"].sum())
    summary = [messages, int(messages * 0.992), 1234, 210, 34, 7, messages / DAYS / 86_400]
    summary += [0.992, 0.0312, 0.0012, 0.00004, 0.0121, 0.21, 1.43, 0.034, 0.8, 4.2, 7.1]
    tables["summary"] = pd.DataFrame([summary], columns=COLUMNS["summary"])
    facts = {
        **empty().facts,
        "title": "Shop, production",
        "since": UNTIL - timedelta(days=DAYS),
        "source": "s3a://lake/queue",
        "messages": messages,
        "simulation": {"measured_p99_s": 1.43, "simulated_p99_s": 1.51, "error": 0.056},
        "bucket_s": BUCKET,
    }
    return Report(facts, {name: tables[name][found] for name, found in COLUMNS.items()})


def _over_time(random: np.random.Generator) -> pd.DataFrame:
    since = UNTIL - timedelta(days=DAYS)
    at = pd.date_range(since, UNTIL, freq=f"{BUCKET:g}s", inclusive="left")
    hour = at.hour + at.minute / 60
    busy_hours = np.exp(-(((hour - 14) / 5) ** 2)) + 0.08
    weekday = np.where(at.weekday < 5, 1.0, 0.45)
    arrived = random.poisson(2_800 * busy_hours * weekday)
    # One campaign that was too much for the workers.
    arrived[310:322] = arrived[310:322] * 3
    ended = np.zeros_like(arrived)
    backlog = np.zeros_like(arrived)
    waiting = 0
    for index, each in enumerate(arrived):
        ended[index] = min(waiting + each, 3_300)
        waiting += each - ended[index]
        backlog[index] = waiting + random.poisson(2)
    wait = 0.012 + backlog / 3_300 * 600
    frame = pd.DataFrame(
        {
            "at": at,
            "arrived": arrived,
            "ended": ended,
            "failed_attempts": random.poisson(ended * 0.02),
            "backlog": backlog,
            "running": ended * 1.4 / BUCKET,
            "wait_p50_s": wait * random.lognormal(0, 0.1, len(at)),
            "wait_p99_s": wait * random.lognormal(3, 0.3, len(at)),
        }
    )
    # Nobody was there at night.
    frame.loc[500:520, ["wait_p50_s", "wait_p99_s"]] = np.nan
    return frame


def _groups(random: np.random.Generator, name: str, values: list[Any]) -> pd.DataFrame:
    count = len(values)
    messages = np.sort((random.pareto(1.1, count) * 4_000 + 20).astype(int))[::-1]
    dead = random.poisson(messages * 0.001)
    wait, run = random.lognormal(-4, 1.4, count), random.lognormal(-3, 1.6, count)
    frame = pd.DataFrame(
        {
            name: values,
            "messages": messages,
            "succeeded": messages - dead,
            "dead": dead,
            "success_rate": 1 - dead / messages,
            "retry_rate": random.beta(1, 40, count),
            "death_rate": dead / messages,
            "loss_rate": 0.0,
            "wait_p50_s": wait,
            "wait_p95_s": wait * 6,
            "wait_p99_s": wait * 40,
            "run_p50_s": run,
            "run_p95_s": run * 3,
            "run_p99_s": run * 9,
            "run_total_s": run * messages,
        }
    )
    # A group in which nothing ran, and one without any wait.
    frame.loc[count - 1, [column for column in frame if str(column).endswith("_s")]] = np.nan
    frame.loc[count - 2, ["wait_p50_s", "run_p50_s"]] = 0.0
    return frame


def _objectives(random: np.random.Generator) -> dict[str, pd.DataFrame]:
    rows = [
        ["default", 1.0, 0.99, 512_000, 511_200, 0.9984, 0.84, 2.1],
        ["mail", 5.0, 0.99, 203_000, 198_500, 0.9778, -1.22, 31.0],
        ["images", 60.0, 0.95, 88_000, 87_900, 0.9989, 0.977, 0.4],
        ["never-used", 1.0, 0.99, 0, 0, np.nan, np.nan, np.nan],
    ]
    hours = pd.date_range(UNTIL - timedelta(days=DAYS), UNTIL, freq="1h").floor("h")
    burns = [
        pd.DataFrame({"channel": name, "at": hours, "burn": random.gamma(0.6, size, len(hours))})
        for name, size in [("default", 0.3), ("mail", 1.6), ("images", 0.1)]
    ]
    return {
        "slo": pd.DataFrame(rows, columns=COLUMNS["slo"]),
        "slo_burn": pd.concat(burns, ignore_index=True),
    }


def _slowest(random: np.random.Generator) -> pd.DataFrame:
    share = np.sort(random.dirichlet(np.full(len(TASKS), 0.7)))[::-1]
    return pd.DataFrame(
        {
            "task": TASKS,
            "messages": random.integers(100, 300_000, len(TASKS)),
            "run_p50_s": random.lognormal(-2, 1, len(TASKS)),
            "run_p99_s": random.lognormal(1, 1, len(TASKS)),
            "run_total_s": share * 1.4e6,
            "share": share,
        }
    )


def _noisiest(random: np.random.Generator) -> pd.DataFrame:
    keys = ["tenant-acme-international-holdings", "tenant-17", HTML, ARABIC, "42", EMOJI, None]
    share = np.sort(random.dirichlet(np.full(len(keys), 0.8)))[::-1] * 0.7
    return pd.DataFrame(
        {
            "channel": ["mail", "default", "images", "mail", "default", NASTY[4], "default"],
            "key": keys,
            "messages": (share * 1e6).astype(int),
            "share": share,
            "run_total_s": share * 1e6,
            "run_share": random.permutation(share),
            "wait_p99_s_of_others": random.lognormal(0, 1, len(keys)),
            "failures": random.integers(0, 900, len(keys)),
        }
    )


def _waits(random: np.random.Generator) -> pd.DataFrame:
    kinds = ["sleep", "signal", "event", "call"]
    names = [HTML, ARABIC, "wait:approved", *(f"gather {n}" for n in range(30))]
    p50 = np.sort(random.lognormal(8, 3, len(names)))[::-1]
    return pd.DataFrame(
        {
            "task": [TASKS[n % len(TASKS)] for n in range(len(names))],
            "step": names,
            "kind": [kinds[n % len(kinds)] for n in range(len(names))],
            "waits": random.integers(1, 900, len(names)),
            "wait_p50_s": p50,
            "wait_p95_s": p50 * 3,
            "wait_max_s": p50 * 11,
            "wait_total_s": p50 * 500,
            "share": p50 / p50.sum(),
        }
    )


def _flows(random: np.random.Generator) -> dict[str, pd.DataFrame]:
    names = ["nightly report", HTML, ARABIC, *(f"import {n}" for n in range(14)), ""]
    p50 = np.sort(random.lognormal(2, 2, len(names)))[::-1]
    flows = pd.DataFrame(
        {
            "flow": names,
            "flows": random.integers(1, 900, len(names)),
            "failed": random.poisson(2, len(names)),
            "messages": random.integers(10, 100_000, len(names)),
            "duration_p50_s": p50,
            "duration_p95_s": p50 * 3,
            "duration_max_s": p50 * 11,
        }
    )
    steps = pd.DataFrame(
        [[name, number, step, 7 * step, task] for number, name in enumerate(names, 1)
         for step, task in enumerate(TASKS, 1)],
        columns=COLUMNS["flow_paths"][:5],
    )  # fmt: skip
    times = random.lognormal(0, 2, (3, len(steps)))
    paths = steps.assign(waited_s=times[0], ready_s=times[1], run_s=times[2])
    tasks = steps[["flow", "task"]].assign(
        messages=random.integers(1, 5_000, len(steps)),
        waited_total_s=times[0] * 900,
        ready_total_s=times[1] * 900,
        run_total_s=times[2] * 900,
        share=random.beta(1, len(TASKS), len(steps)),
    )
    return {"flows": flows, "flow_tasks": tasks, "flow_paths": paths}


def _errors(random: np.random.Generator) -> pd.DataFrame:
    classes = ["requests.exceptions.ReadTimeout", "ValueError", "django.db.utils.IntegrityError"]
    rows = []
    for index in range(21):
        text = NASTY[index % len(NASTY)]
        began = UNTIL - timedelta(days=DAYS - 1, hours=index)
        rows.append(
            [
                classes[index] if index < len(classes) else f"app.errors.Error{index}",
                None if index == 4 else f"/srv/app/shop/{index}/tasks.py:{index * 7} in deliver",
                f"order <n> of {text}",
                int(9_000 / (index + 1)),
                int(4_000 / (index + 1)),
                ", ".join(TASKS[: 1 + index % 4]),
                began,
                began + timedelta(hours=30),
                f"Traceback (most recent call last):\n  order {random.integers(1e6)} of {text}",
            ]
        )
    return pd.DataFrame(rows, columns=COLUMNS["errors"])


def _storms() -> pd.DataFrame:
    begin = UNTIL - timedelta(days=3)
    rows = [
        [TASKS[2], begin, begin + timedelta(hours=2), 41_000, 38_500, 14.2, 0.03],
        [TASKS[2], begin + timedelta(days=1), begin + timedelta(days=1, hours=7)]
        + [9_000, 8_000, 3.1, 0.03],
        [
            LONG,
            begin - timedelta(days=1),
            begin - timedelta(days=1, minutes=-3),
            700,
            650,
            9.0,
            0.0,
        ],
    ]
    return pd.DataFrame(rows, columns=COLUMNS["retry_storms"])


def _what_if() -> pd.DataFrame:
    rows = [
        ["Measured", "measured", np.nan, 0.0121, 1.43, 7.1, np.nan],
        ["Today's workers, simulated", "today", 8, 0.011, 1.51, 7.2, 0.61],
        ["Half as many workers", "workers", 4, 210.0, 9_400.0, 9_400.0, 0.99],
        ["Twice as many workers", "workers", 16, 0.004, 0.21, 5.9, 0.31],
        ["Four times as many workers", "workers", 32, 0.004, 0.02, 5.8, 0.15],
        ["No more than 2 of tenant-acme-international-holdings at once", "limit"]
        + [8, 0.009, 0.9, 7.0, 0.61],
        ["Exponential backoff", "backoff", 8, 0.011, 1.3, 7.0, 0.58],
    ]
    return pd.DataFrame(rows, columns=COLUMNS["what_if"])


def _changes(random: np.random.Generator) -> dict[str, pd.DataFrame]:
    hours = pd.date_range(UNTIL - timedelta(days=DAYS), UNTIL, freq="1h")
    changes, durations = [], []
    for task, before, after, index in [(TASKS[1], 0.21, 0.53, 80), (LONG, 900.0, 420.0, 40)]:
        p50 = np.where(np.arange(len(hours)) < index, before, after)
        p50 = p50 * random.lognormal(0, 0.06, len(hours))
        changes.append([task, hours[index], before, after, after / before, 41_000, 32_000])
        durations.append(pd.DataFrame({"task": task, "at": hours, "p50_s": p50}))
    return {
        "change_points": pd.DataFrame(changes, columns=COLUMNS["change_points"]),
        "task_durations": pd.concat(durations, ignore_index=True),
    }


def _forecast(random: np.random.Generator, over_time: pd.DataFrame) -> pd.DataFrame:
    past = over_time[["at", "backlog"]].iloc[-288:].assign(kind="past", low=np.nan, high=np.nan)
    at = pd.date_range(UNTIL, periods=144, freq=f"{BUCKET:g}s")
    backlog = 900 * np.exp(-(((at.hour - 15) / 3) ** 2))
    band = 60 + np.arange(len(at)) * 4
    coming = pd.DataFrame(
        {
            "at": at,
            "kind": "forecast",
            "backlog": backlog,
            "low": np.maximum(backlog - band, 0),
            "high": backlog + band * 1.6,
        }
    )
    return pd.concat([past, coming], ignore_index=True)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(render(busy()), "utf-8")
