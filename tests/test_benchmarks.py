"""That the benchmarks run and report what they promise; their figures here mean nothing.

`make bench-smoke` runs the benchmarks themselves, `make test` what judges their figures.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.benchmarks.harness import musts, results, scaling
from tests.benchmarks.harness.group import Group
from tests.benchmarks.harness.musts import MUSTS, Must, Verdict
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import session
from tests.benchmarks.peers.peer import ADAPTERS
from tests.eventually import eventually
from tests.system import is_alive

pytestmark = pytest.mark.xdist_group("benchmarks")
"""They use one server."""

ROOT = Path(__file__).resolve().parent.parent
FIGURES = {
    "backlog": {"claim_ms_10k", "claim_ms_1m", "stats_ms_10m"},
    "batch": {"per_s", "one_by_one_per_s"},
    "cluster": {"cluster_per_s"},
    "contention": {
        *("percent_client", "percent_cpu", "claims_per_s", "per_s"),
        *("locks", "worker_us", "server_us", "wal_bytes"),
    },
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
    "durable": {
        *("workflows_per_s", "step_ms", "atomic_step_ms", "signal_to_run_ms"),
        *("event_to_run_ms", "wake_per_s"),
    },
    "enqueue": {
        "one_by_one_per_s",
        "bulk_per_s",
        "clients_busy_per_s",
        "clients_idle_per_s",
        "clients_silent_per_s",
    },
    "events": {
        *("publish_per_s", "publish_1k_per_s", "publish_one_by_one_per_s", "append_if_per_s"),
        *("group_per_s", "in_per_s", "out_per_s", "publish_to_handler_p50_ms"),
    },
    "flows": {
        *("per_s", "plain_per_s", "last_to_callback_ms", "results_ms", "chain_step_ms"),
    },
    "fair": {"per_s", "one_key_per_s", "deep_turns_per_round", "p99_wait_rounds"},
    "governed": {"per_s", "free_per_s", "saturated_claim_ms"},
    "lake": {"ducklake_per_s", "delta_per_s", "iceberg_per_s", "read_per_s"},
    "latency": {"p50_ms", "p99_ms"},
    "ordered": {"per_s"},
    "orm": {"per_s"},
    "pinned": {"pinned_per_s", "unpinned_per_s"},
    "recovery": {"child_s", "worker_s"},
    "search": {
        *("bounded_p50_ms", "bounded_p95_ms", "indexed_p50_ms", "indexed_p95_ms"),
        *("unindexed_p50_ms", "unindexed_p95_ms", "indexed_whole_percent", "index_s", "index_mb"),
        *("write_per_s", "indexed_write_per_s", "live_per_s", "indexed_live_per_s"),
    },
    "sleepers": {"s"},
    "sse": {"p50_ms", "p99_ms", "rss_per_client_kb", "to_all_p50_ms", "lost"},
    "subscriptions": {"per_s", "match_s"},
    "sustained": {"per_s", "removed_per_s", "depth", "p99_ms", "wal_bytes", "mb", "dead_message"},
    "telemetry": {"enqueue_us", "run_us", "traced_enqueue_us", "traced_run_us"},
    "webhooks": {"per_s"},
    "spark": {
        *("read_s", "reader_per_s", "export_per_s", "enqueue_per_s", "stream_p50_s"),
        "events_per_s",
    },
}
REPORT = Report(
    benchmark="drain",
    messages=200_000,
    rounds=3,
    figures={"per_s": 25_000, "rss_mb": 90, "wal_bytes_per_message": 1_000},
    ratios={"of_ceiling": 0.75},
    spread={
        "figures.per_s": [24_000, 26_000],
        "figures.rss_mb": [89, 91],
        "figures.wal_bytes_per_message": [999, 1_001],
        "ratios.of_ceiling": [0.7, 0.8],
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


@pytest.fixture(autouse=True, scope="module")
def session_ends() -> Iterator[None]:
    """Close the connection of a report's machine: later tests of this process count sessions."""
    yield
    if session.cache_info().currsize:
        session().close()
        session.cache_clear()


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


def at_night(*names: str, messages: str) -> Any:
    """Return benchmarks that are tried at night: their failure harms no user of the queue."""
    return pytest.param(list(names), messages, marks=pytest.mark.nightly)


@pytest.mark.smoke
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("names", "messages"),
    [
        (["drain", "governed", "orm"], "500"),
        at_night("latency", messages="6"),
        at_night("events", messages="3000"),
        at_night("batch", messages="500"),
        at_night("enqueue", "fair", "pinned", "telemetry", "backlog", messages="500"),
        at_night("ordered", "subscriptions", messages="500"),
        at_night("sustained", messages="10000"),
        # So many that they cost a worker more than two of its starts differ by.
        at_night("contention", messages="10000"),
        at_night("search", messages="20000"),
        at_night("webhooks", "flows", "sse", "durable", messages="20"),
        at_night("recovery", "sleepers", messages="6"),
        at_night("spark", messages="300"),
        at_night("lake", messages="300"),
        at_night("cluster", messages="20"),
    ],
)
def test_each_benchmark_reports_what_it_promises(names: list[str], messages: str) -> None:
    reports = run(*names, "--messages", messages)

    assert [report["benchmark"] for report in reports] == names
    for report in reports:
        figures, ratios, machine = report["figures"], report["ratios"], report["machine"]
        assert FIGURES[report["benchmark"]] <= figures.keys()
        assert not ratios or ratios.keys() & {
            *("of_ceiling", "of_free", "of_one_by_one", "deep_of_shallow", "of_jdbc"),
            *("chord_of_drain", "cluster_of_processes", "step_of_ceiling", "mb_last_of_half"),
        }
        assert figures.get("lost", 0) == 0
        measures = {**figures, **ratios}
        # Retention and vacuum do nothing in so short a time.
        least = {"lost": 0, "removed_per_s": 0, **{n: 0 for n in measures if n.startswith("dead_")}}
        assert {n: v for n, v in measures.items() if v < least.get(n, sys.float_info.min)} == {}
        assert {"cpu", "cores", "memory_gb", "postgresql", "python"} < machine.keys()
        measured = {f"figures.{name}" for name in figures} | {f"ratios.{name}" for name in ratios}
        assert report["spread"].keys() == measured
        asked = {must.metric for must in MUSTS if must.benchmark == report["benchmark"]}
        asked -= {must.metric for must in MUSTS if must.is_lasting or must.feed != "poll"}
        # What needs another program, or more messages than these.
        may_lack = {"ratios.of_jdbc", "ratios.chord_of_celery_redis", "figures.simulation_error"}
        assert asked - may_lack <= measured


@pytest.mark.smoke
@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_a_rate_may_be_kept_beside_old_snapshots_for_minutes() -> None:
    [report] = run("pinned", "--minutes", "0.1")

    assert (report["messages"], report["minutes"]) == (0, 0.1)
    for phase in ("800", "2000", "scanned"):
        assert {f"per_s_{phase}", f"depth_{phase}", f"p99_ms_{phase}"} <= report["figures"].keys()


@pytest.mark.smoke
@pytest.mark.nightly
@pytest.mark.timeout(200)
def test_the_log_may_be_measured_for_minutes() -> None:
    [report] = run("events", "--minutes", "0.1")

    assert (report["messages"], report["minutes"]) == (0, 0.1)
    assert report["figures"].keys() == {"in_per_s", "out_per_s", "removed"}
    assert report["ratios"]["last_of_first"] > 0


@pytest.mark.smoke
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_the_log_may_be_measured_while_the_wal_feeds_it() -> None:
    [report] = run("events", "--feed", "wal", "--messages", "3000")

    assert report["feed"] == "wal"
    assert report["ratios"]["of_poll"] > 0
    assert report["figures"]["publish_to_handler_p50_ms"] > 0


def test_what_lasts_for_minutes_has_musts_of_its_own() -> None:
    brief = replace(REPORT, benchmark="events", figures={}, ratios={"of_ceiling": 0.1})
    lasting = replace(brief, minutes=20, ratios={"last_of_first": 0.8})

    assert "events: ratios.of_ceiling is 0.1, and must be ≥ 0.5." in musts.missed(brief)
    assert musts.missed(lasting) == ["events: ratios.last_of_first is 0.8, and must be ≥ 0.9."]


def test_a_report_that_reaches_its_musts_misses_none() -> None:
    assert musts.missed(REPORT) == []


def test_a_missed_must_is_told() -> None:
    slow = replace(REPORT, figures={**REPORT.figures, "per_s": 19_990, "rss_mb": 151})

    assert musts.missed(slow) == [
        "drain: figures.per_s is 19990, and must be ≥ 20000.",
        "drain: figures.rss_mb is 151, and must be ≤ 150.",
    ]


def test_a_metric_that_is_not_reported_is_no_success() -> None:
    assert musts.missed(replace(REPORT, ratios={})) == [
        "drain: ratios.of_ceiling was not measured."
    ]


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


COSTS = replace(
    REPORT,
    benchmark="contention",
    figures={
        "percent_client": 20.5,
        "percent_cpu": 70.0,
        "percent_lock_tuple": 0.1,
        "server_us": 50.0,
        "worker_us": 25.0,
        "wal_bytes": 1_000.0,
    },
)


def test_the_model_multiplies_costs_by_cores_and_leaves_out_rare_waits() -> None:
    lines = scaling.lines(COSTS)

    assert lines[2:5] == ["| `cpu` | 70.0 |", "| `client` | 20.5 |", ""]
    assert "| WAL for a message, bytes | 1,000.0 |" in lines
    # 2 cores are 2 000 000 µs a second.
    assert "| 2 | 40,000 | 1.0 | 40 |" in lines


def test_a_server_elsewhere_has_no_model() -> None:
    figures = {name: each for name, each in COSTS.figures.items() if name != "server_us"}

    assert scaling.lines(replace(COSTS, figures=figures))[-1] == "| --- | --- | --- | --- |"


def test_a_wait_that_one_round_has_met_is_zero_in_the_others() -> None:
    from tests.benchmarks.contention import completed

    rounds = completed([Round({"percent_cpu": 90, "per_s": 5}, {}), Round({"percent_io": 10}, {})])

    assert [dict(each.figures) for each in rounds] == [
        {"percent_cpu": 90, "percent_io": 0, "per_s": 5},
        {"percent_cpu": 0, "percent_io": 10},
    ]


# Of the peers none is run here but ours: `make bench-peers ROUNDS=1 MESSAGES=1000` tries all.

ADAPTER_FILES = ROOT / "tests/benchmarks/peers/adapters"
OURS = {"pgqueue_drain_per_s": 900.0, "pgqueue_pickup_p50_ms": 4.0}


def peer(name: str, *, pace: int = 0, workflow_pace: int = 0) -> Any:
    """Return the parts of a peer that rounds and ratios look at."""
    return SimpleNamespace(
        name=name,
        title=name,
        on_redis=False,
        is_django=True,
        notifies=False,
        finished=None,
        pace=pace,
        workflow_pace=workflow_pace,
    )


PEERS = [peer("pgqueue"), peer("ox")]


@pytest.mark.smoke
@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_each_measurement_of_the_peers_works_with_ours() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.peers"]
        + ["pgqueue", "--messages", "500", "--rounds", "1", "--format", "json"],
        cwd=ROOT,
        env=os.environ,
        capture_output=True,
        text=True,
    )

    assert ran.returncode == 0, ran.stderr
    [line] = ran.stdout.splitlines()
    found = json.loads(line)
    assert found["figures"].keys() >= {
        "pgqueue_enqueue_per_s",
        "pgqueue_bulk_per_s",
        "pgqueue_clients_per_s",
        "pgqueue_drain_per_s",
        "pgqueue_compat_drain_per_s",
        "pgqueue_chord_per_s",
        "pgqueue_compat_chord_per_s",
        "pgqueue_nap_drain_per_s",
        "pgqueue_query_drain_per_s",
        "pgqueue_connecting_query_drain_per_s",
        "pgqueue_full_drain_per_s",
        "pgqueue_workflows_per_s",
        "pgqueue_pickup_p50_ms",
        "pgqueue_pickup_p99_ms",
    }
    kill = ("lost", "stuck", "doubled")
    assert [found["figures"][f"pgqueue_{name}"] for name in kill] == [0, 0, 0]
    assert found["remarks"].keys() == {"pgqueue"}


def test_each_adapter_has_its_package_in_the_requirements() -> None:
    files = {file.stem: file.read_text("utf-8") for file in ADAPTER_FILES.glob("[!_]*.py")}
    asked = (ROOT / "requirements/peers.in").read_text("utf-8")
    pinned = (ROOT / "requirements/peers.txt").read_text("utf-8")

    assert sorted(files) == sorted(ADAPTERS)
    for name, text in files.items():
        [distribution] = re.findall(r"^    distribution = \"(.+)\"$", text, re.M)
        if name != "pgqueue":
            assert re.search(rf"^{distribution}\b", asked, re.M | re.I), distribution
            assert re.search(rf"^{distribution}==", pinned, re.M | re.I), distribution


def test_ratios_compare_with_the_best_of_the_others() -> None:
    from tests.benchmarks.peers.rounds import ratios

    theirs = {"ox_drain_per_s": 300.0, "ox_pickup_p50_ms": 8.0}

    found = ratios({**OURS, **theirs}, PEERS)

    assert found == {
        "drain_of_best_postgres_peer": 3,
        "drain_of_django_ox": 3,
        "pickup_p50_of_best_peer": 0.5,
    }


def test_tasks_and_chords_declared_as_celery_s_are_compared_with_celery() -> None:
    from tests.benchmarks.peers.rounds import ratios

    celery: Any = SimpleNamespace(name="celery", on_redis=True, is_django=False, notifies=False)

    ours = {"compat_drain_per_s": 600.0, "chord_per_s": 20.0, "compat_chord_per_s": 10.0}
    theirs = {"celery_drain_per_s": 30.0, "celery_chord_per_s": 0.5}

    found = ratios(
        {**OURS, **{f"pgqueue_{name}": each for name, each in ours.items()}, **theirs}, [celery]
    )

    assert found == {
        "drain_of_celery_redis": 30,
        "compat_drain_of_celery_redis": 20,
        "chord_of_celery_redis": 40,
        "compat_chord_of_celery_redis": 20,
    }


def test_workflows_are_compared_with_each_peer_that_has_them() -> None:
    from tests.benchmarks.peers.rounds import ratios

    ours = {"pgqueue_workflows_per_s": 600.0}
    theirs = {"dbos_workflows_per_s": 30.0, "absurd_workflows_per_s": 100.0}

    found = ratios({**ours, **theirs}, PEERS)

    assert found == {"workflows_of_dbos": 20, "workflows_of_django_absurd": 6}
    assert "workflows_of_dbos" not in ratios({**ours, "absurd_workflows_per_s": 100.0}, PEERS)


def test_a_peer_of_workflows_is_measured_by_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.benchmarks.peers import measures
    from tests.benchmarks.peers.rounds import Rounds

    drained: list[tuple[str, str, int]] = []

    def drain(peer: Any, place: Any, task: str, count: int, **told: str) -> float:
        drained.append((peer.name, task, count))
        return 60.0

    monkeypatch.setattr(measures, "drain", drain)
    empty, full = (SimpleNamespace(is_full=is_full) for is_full in (False, True))
    peers = [
        peer("pgqueue", pace=1_000, workflow_pace=100),
        peer("ox", pace=50),
        peer("dbos", workflow_pace=30),
    ]
    rounds = Rounds(peers, empty, full, only=["drain", "workflows"])

    found = rounds.measure(2_000)

    assert drained == [
        ("pgqueue", "nothing", 2_000),
        ("ox", "nothing", 100),
        ("pgqueue", "workflow", 200),
        ("dbos", "workflow", 60),
    ]
    assert "ox_workflows_per_s" not in found.figures
    assert found.ratios["workflows_of_dbos"] == 1


def test_who_was_not_measured_is_in_no_ratio() -> None:
    from tests.benchmarks.peers.rounds import ratios

    assert ratios(OURS, PEERS) == {}


def test_what_failed_in_some_rounds_is_reported_and_told() -> None:
    rounds = iter(
        [
            Round({"a_per_s": 1, "b_per_s": 5}, {}),
            Round({"a_per_s": 3}, {}, remarks={"b_drain": "It ended by itself."}),
        ]
    )

    done = repeat("drain", lambda _: next(rounds), messages=1, rounds=2, remarks={"a": "A 1"})

    assert done.figures == {"a_per_s": 2, "b_per_s": 5}
    assert done.remarks == {"a": "A 1", "b_drain": "It ended by itself. (in 1 of 2 rounds)"}


def test_peers_stand_beside_each_other_and_none_is_left_out(tmp_path: Path) -> None:
    of_peers = replace(
        REPORT,
        benchmark="peers",
        figures={
            "pgqueue_drain_per_s": 9_000,
            "celery_drain_per_s": 300,
            "dbos_workflows_per_s": 30,
        },
        ratios={"drain_of_celery_redis": 30, "workflows_of_dbos": 12},
        spread={
            "figures.pgqueue_drain_per_s": [8_000, 9_500],
            "figures.celery_drain_per_s": [290, 310],
            "figures.dbos_workflows_per_s": [29, 31],
            "ratios.drain_of_celery_redis": [25, 32],
            "ratios.workflows_of_dbos": [11, 13],
        },
        remarks={"huey": "was not measured: No module named 'huey'."},
    )

    results.write([of_peers], folder=tmp_path)

    text = (tmp_path / "RESULTS.md").read_text()
    assert "| ratios.drain_of_celery_redis | 30 (25–32) | ≥ 15 | ≥ 40 | must reached |" in text
    [row] = [line for line in text.splitlines() if line.startswith("| no-ops, per s |")]
    assert row == (
        f"| no-ops, per s | 9,000 (8,000–9,500) {'| – ' * 7}| 300 (290–310) | – | – | – |"
    )
    assert "| ratios.workflows_of_dbos | 12 (11–13) | ≥ 10 | ≥ 20 | must reached |" in text
    [row] = [line for line in text.splitlines() if line.startswith("| workflows of 3 steps")]
    assert row.endswith(f"{'| – ' * 10}| 30 (29–31) | – |")
    assert "- **huey** was not measured: No module named 'huey'." in text


def test_a_group_ends_with_all_that_it_started(tmp_path: Path) -> None:
    with Group(_family(tmp_path), environment=os.environ, cwd=ROOT) as group:
        child = _pid_in(tmp_path)

        group.kill()

    eventually(lambda: not is_alive(child))


def test_a_group_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    code = (
        "import os, time\n"
        "from tests.benchmarks.harness.group import Group\n"
        f"with Group({_family(tmp_path)!r}, environment=os.environ, cwd='.'): time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    child = _pid_in(tmp_path)

    starter.kill()
    starter.wait()

    eventually(lambda: not is_alive(child))


def _family(folder: Path) -> list[str]:
    """Return a program that starts another, and says where."""
    return [
        "sh",
        "-c",
        f"sleep 60 & echo $! > {folder}/draft; mv {folder}/draft {folder}/pid; wait",
    ]


def _pid_in(folder: Path) -> int:
    eventually((folder / "pid").exists)
    return int((folder / "pid").read_text())
