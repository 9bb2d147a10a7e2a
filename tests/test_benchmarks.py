"""That the benchmarks run and report what they promise; their figures here mean nothing."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.harness import musts, results
from tests.benchmarks.harness.musts import MUSTS, Must, Verdict
from tests.benchmarks.harness.report import Report

ROOT = Path(__file__).resolve().parent.parent
FIGURES = {
    "backlog": {"claim_ms_10k", "claim_ms_1m", "stats_ms_10m"},
    "django_tasks": {
        "ours_enqueue_per_s",
        "ours_drain_per_s",
        "ours_connecting_drain_per_s",
        "own_drain_per_s",
        "tasks_db_enqueue_per_s",
        "tasks_db_drain_per_s",
        "tasks_db_connecting_drain_per_s",
    },
    "drain": {"per_s", "rss_mb", "startup_s"},
    "enqueue": {
        "one_by_one_per_s",
        "bulk_per_s",
        "clients_busy_per_s",
        "clients_idle_per_s",
        "clients_silent_per_s",
    },
    "fair": {"per_s", "one_key_per_s", "deep_turns_per_round", "p99_wait_rounds"},
    "governed": {"per_s", "free_per_s", "saturated_claim_ms"},
    "latency": {"p50_ms", "p99_ms"},
    "ordered": {"per_s"},
    "pinned": {"pinned_per_s", "unpinned_per_s"},
}
REPORT = Report(
    benchmark="drain",
    messages=200_000,
    rounds=3,
    figures={"per_s": 25_000, "rss_mb": 90},
    ratios={"of_ceiling": 0.5},
    spread={
        "figures.per_s": [24_000, 26_000],
        "figures.rss_mb": [89, 91],
        "ratios.of_ceiling": [0.4, 0.6],
    },
    machine={
        "cpu": "a processor",
        "cores": 2,
        "memory_gb": 8,
        "load_before": 0.1,
        "postgresql": "18.4",
        "python": "3.11",
        "django": "5.2",
        "psycopg": "3.3",
        "settings": {"fsync": "on"},
    },
    measured_at="2026-01-01T00:00:00+00:00",
)


def run(*arguments: str) -> list[dict[str, Any]]:
    """Return what the benchmarks print as JSON, one round each."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--rounds", "1", "--format", "json", *arguments],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    # 1 where a must was missed: no wonder at these sizes, on a machine that runs tests.
    assert ran.returncode in (0, 1), ran.stderr
    assert "Traceback" not in ran.stderr, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("names", "messages"),
    [
        (["drain", "enqueue", "fair", "pinned"], "2000"),
        (["backlog", "governed", "ordered"], "2000"),
        (["latency"], "5"),
    ],
)
def test_each_benchmark_reports_what_it_promises(names: list[str], messages: str) -> None:
    reports = run(*names, "--messages", messages)

    assert [report["benchmark"] for report in reports] == names
    for report in reports:
        figures, ratios, machine = report["figures"], report["ratios"], report["machine"]
        assert FIGURES[report["benchmark"]] < figures.keys()
        assert ratios.keys() & {"of_ceiling", "of_free", "deep_of_shallow"}
        assert all(value > 0 for value in [*figures.values(), *ratios.values()])
        assert {"cpu", "cores", "memory_gb", "postgresql", "python"} < machine.keys()
        measured = {f"figures.{name}" for name in figures} | {f"ratios.{name}" for name in ratios}
        assert report["spread"].keys() == measured
        assert {must.metric for must in MUSTS if must.benchmark == report["benchmark"]} <= measured


def test_a_report_that_reaches_its_musts_misses_none() -> None:
    assert musts.missed(REPORT) == []


def test_a_missed_must_is_told() -> None:
    slow = replace(REPORT, figures={"per_s": 19_990, "rss_mb": 151})

    assert musts.missed(slow) == [
        "drain: figures.per_s is 19990, and must be ≥ 20000.",
        "drain: figures.rss_mb is 151, and must be ≤ 150.",
    ]


def test_a_metric_that_is_not_reported_is_no_success() -> None:
    with pytest.raises(KeyError):
        musts.missed(replace(REPORT, ratios={}))


def test_the_aim_says_which_way_is_better() -> None:
    rate = Must("drain", "figures.per_s", must=20, aim=40)
    delay = Must("latency", "figures.p50_ms", must=5, aim=2)

    assert [rate.judge(value) for value in (19, 20, 40)] == [
        Verdict.MISSED,
        Verdict.MUST,
        Verdict.AIM,
    ]
    assert [delay.judge(value) for value in (6, 5, 2)] == [
        Verdict.MISSED,
        Verdict.MUST,
        Verdict.AIM,
    ]


def test_results_replace_those_of_the_same_benchmark_only(tmp_path: Path) -> None:
    results.write([REPORT, replace(REPORT, messages=1_000_000)], folder=tmp_path)

    results.write([replace(REPORT, figures={"per_s": 1, "rss_mb": 90})], folder=tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    assert "| figures.per_s | 1 (24,000–26,000) | ≥ 20,000 | ≥ 40,000 | MISSED |" in text
    assert "| figures.per_s | 25,000 (24,000–26,000) | ≥ 20,000 | ≥ 40,000 | must reached |" in text
    assert len(json.loads((tmp_path / "results.json").read_text())) == 2
