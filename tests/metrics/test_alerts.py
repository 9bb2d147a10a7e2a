"""Each alert fires where it should, and is silent otherwise, as Prometheus itself evaluates it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.programs import find

pytestmark = pytest.mark.slow

RULES = Path(__file__).parents[2] / "docs" / "prometheus" / "alerts.yml"
RUNS = 'pgqueue_runs_total{channel="mail",task="send",outcome="%s"}'
WORKERS = {'pgqueue_workers{kind="worker"}': "1x60"}

Series = dict[str, str]
"""Values by the minute: `0x10 1x10` is eleven times 0, then eleven times 1; `_` is none."""


def at(series: str, instance: str) -> str:
    """Return the series as one of several processes tells it."""
    return series.replace("{", f'{{instance="{instance}",')


def counted(outcome: str) -> tuple[list[Series], list[Series]]:
    runs = RUNS % outcome
    firing = [{runs: "0x20 1x40"}, {runs: "_x20 1x40"}, {runs: "5x20 6x40"}]
    silent = [
        {runs: "0x60"},
        {runs: "5x60"},
        {runs: "0x5 1x55"},  # long ago
        # Another process is scraped, too: the figures are old.
        {at(runs, "a"): "5x60", at(runs, "b"): "_x20 5x40"},
        # Prometheus itself is new.
        {runs: "_x20 5x40", 'pgqueue_workers{kind="worker"}': "_x20 1x40"},
    ]
    return [{**WORKERS, **each} for each in firing], [{**WORKERS, **each} for each in silent]


def above(series: str, limit: float, *, well: float = 0) -> tuple[list[Series], list[Series]]:
    return [{series: f"{limit * 1.1}x60"}], [{series: f"{well}x60"}, {series: f"{limit}x60"}]


WAIT = 'pgqueue_longest_wait_seconds{task="checkout",reason="%s"}'
AGE = 'pgqueue_oldest_ready_age_seconds{channel="mail"}'
ALERTS: dict[str, tuple[list[Series], list[Series]]] = {
    "PGQueueNoWorker": ([{'pgqueue_workers{kind="worker"}': "0x60"}], [WORKERS]),
    "PGQueueNotScraped": ([{"up": "1x60"}], [WORKERS]),
    "PGQueueFiguresMissing": (
        [{'pgqueue_scrape_failed{part="runs"}': "1x60"}],
        [{'pgqueue_scrape_failed{part="runs"}': "0x60"}],
    ),
    "PGQueueBacklogOld": (
        [{AGE: "400x60", 'pgqueue_channel_paused{channel="mail"}': "0x60"}],
        [{AGE: "300x60"}, {AGE: "400x60", 'pgqueue_channel_paused{channel="mail"}': "1x60"}],
    ),
    "PGQueueBreakerOpen": (
        [{'pgqueue_breakers_open{channel="mail"}': "1x60"}],
        [
            {'pgqueue_breakers_open{channel="mail"}': "0x60"},
            # A short outage.
            {'pgqueue_breakers_open{channel="mail"}': "0x26 1x34"},
        ],
    ),
    "PGQueueDeadLetters": counted("dead"),
    "PGQueueRunsLost": counted("lost"),
    "PGQueueFailing": (
        [{RUNS % "failed": "0+6x60", RUNS % "succeeded": "0+4x60"}],
        [{RUNS % "failed": "0+4x60", RUNS % "succeeded": "0+6x60"}, {RUNS % "failed": "0x60"}],
    ),
    "PGQueueDutyLate": above('pgqueue_duty_late_seconds{duty="purge"}', 300),
    "PGQueueDutyFailing": above('pgqueue_duty_failing_seconds{duty="purge"}', 300),
    "PGQueueDaysMissing": (
        [{"pgqueue_history_days_ahead": "2x60"}, {"pgqueue_history_days_ahead": "-1x60"}],
        [{"pgqueue_history_days_ahead": "3x60"}],
    ),
    "PGQueueNotificationsPileUp": above("pgqueue_notification_queue_usage", 0.25),
    "PGQueueScheduleLate": above('pgqueue_schedule_late_seconds{schedule="nightly"}', 300),
    "PGQueueFlowStopped": above("pgqueue_flows_stopped", 0),
    "PGQueueWaitLong": (
        [{WAIT % "signal": "700000x60"}, {WAIT % "call": "700000x60"}],
        [{WAIT % "signal": "604800x60"}, {WAIT % "sleep": "700000x60"}, {WAIT % "event": "0x60"}],
    ),
    "PGQueueGroupBehind": above('pgqueue_group_lag_seconds{group="mails"}', 300),
    "PGQueueGroupStopped": above('pgqueue_group_stopped_partitions{group="mails"}', 0),
    "PGQueueWebhookStopped": above('pgqueue_webhook_stopped{webhook="shop"}', 0),
    "PGQueueExportLate": above('pgqueue_export_age_seconds{target="/lake"}', 172_800),
    "PGQueueHistoryKept": above("pgqueue_history_days_kept", 0),
    "PGQueueStreamBehind": above('pgqueue_stream_lag_seconds{query="ended",log="history"}', 600),
    "PGQueueStreamFailed": (
        [{'pgqueue_stream_running{query="ended"}': "1x20 0x40"}],
        [{'pgqueue_stream_running{query="ended"}': "1x60"}, {"up": "1x60"}],
    ),
    "PGQueueWALBehind": above("pgqueue_wal_lag_bytes", 1073741824),
    "PGQueueWALUnfollowed": (
        [{"pgqueue_wal_feed_active": "0x60"}],
        [{"pgqueue_wal_feed_active": "1x60"}, {"up": "1x60"}],
    ),
    "PGQueueRowsLeftOut": above("pgqueue_rows_left_out", 0),
    "PGQueueLockHeld": above("pgqueue_lock_held_seconds", 60),
}
ALERTS["PGQueueGroupBehind"][1].append(
    {'pgqueue_group_lag_seconds{group="mails:rebuild"}': "9999x60"}
)
for name in ("RowsLeftOut", "FlowStopped", "GroupStopped", "WebhookStopped", "HistoryKept"):
    firing, silent = ALERTS[f"PGQueue{name}"]
    firing[0] = dict.fromkeys(firing[0], "1x60")
CASES = [
    (name, is_firing, series)
    for name, both in ALERTS.items()
    for is_firing, many in zip((True, False), both, strict=True)
    for series in many
]


def test_each_alert_is_tried() -> None:
    named = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))

    assert sorted(named) == sorted(ALERTS)
    assert all(firing and silent for firing, silent in ALERTS.values())


@pytest.mark.parametrize(
    ("name", "is_firing", "series"),
    CASES,
    ids=[
        f"{name}-{'fires' if firing else 'is silent'}-{n}"
        for n, (name, firing, _) in enumerate(CASES)
    ],
)
def test_it_fires_where_it_should_and_only_there(
    name: str, is_firing: bool, series: Series, tmp_path: Path
) -> None:
    promtool = find("promtool", package="prometheus")
    asked = f'count(ALERTS{{alertname="{name}",alertstate="firing"}})'
    found = [{"labels": "{}", "value": 1}] if is_firing else []
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": each, "values": values} for each, values in series.items()
                ],
                # After the changes above, and longer than any `for`.
                "promql_expr_test": [{"expr": asked, "eval_time": "30m", "exp_samples": found}],
            }
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(json.dumps(test))  # which is YAML, too

    run = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, timeout=30
    )

    assert run.returncode == 0, run.stdout + run.stderr
