"""The neutral benchmark: the pace, the percentiles and the lines of samples; the table."""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.harness import pages
from tests.benchmarks.harness.report import Round, report_of
from tests.benchmarks.neutral import table
from tests.benchmarks.neutral.__main__ import options_of
from tests.benchmarks.neutral.pgqueue_bench import protocol
from tests.benchmarks.neutral.pgqueue_bench.protocol import Counts, Delays, Options, Sampler, turns
from tests.eventually import eventually

MANIFEST = Path(protocol.__file__).with_name("adapter.json")


@pytest.fixture
def options() -> Options:
    return replace(Options.given(), paced_by_harness=False, rate=1000, batch_ms=5, batch_max=50)


def test_a_producer_makes_up_for_a_slow_turn(options: Options) -> None:
    pace = turns(options, threading.Event(), depth=lambda: 0)
    began, count = time.monotonic(), next(pace)

    time.sleep(0.2)
    while time.monotonic() - began < 0.4:
        count += next(pace)

    assert count == pytest.approx(1000 * (time.monotonic() - began), rel=0.1, abs=55)


def test_a_turn_has_no_more_messages_than_a_batch(options: Options) -> None:
    pace = turns(replace(options, rate=100_000), threading.Event(), depth=lambda: 0)

    assert max(islice(pace, 20)) == 50


def test_a_producer_keeps_the_depth_that_is_asked_for(options: Options) -> None:
    options = replace(options, mode="depth-target", target_depth=30)

    assert next(turns(options, threading.Event(), depth=lambda: 10)) == 20


def test_the_harness_may_keep_the_pace(options: Options) -> None:
    options = replace(options, paced_by_harness=True)
    tokens = io.StringIO("ENQUEUE 7\nelse\nENQUEUE 3\n")

    assert list(turns(options, threading.Event(), depth=lambda: 0, tokens=tokens)) == [7, 3]


def test_percentiles_have_three_digits() -> None:
    delays = Delays()
    for ms in range(1, 1001):
        delays.add(float(ms))

    found = delays.percentiles(0.5, 0.95, 0.99)

    assert found == pytest.approx([500, 950, 990], rel=0.002)
    assert Delays().percentiles(0.5) == [0.0]


def test_a_sample_has_each_metric_that_the_harness_needs(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    counts = Counts()
    sampler = Sampler("pgqueue", replace(options, sample_every=0.1), counts, lambda: 5)
    sampler.start()
    counts.note_enqueued(10)
    counts.note_started(time.time() - 0.2)
    counts.note_completed()
    samples = samples_of(capsys, lambda told: len(told) >= 14)
    sampler.stop()

    found = {each["metric"]: each["value"] for each in samples}
    assert found.keys() >= {
        *("claim_p50_ms", "claim_p95_ms", "claim_p99_ms"),
        *("enqueue_rate", "completion_rate", "queue_depth"),
    }
    assert found["queue_depth"] == 5
    assert {each["kind"] for each in samples} == {"adapter"}


def test_a_slow_count_of_what_waits_keeps_no_other_metric_back(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    counted = threading.Event()

    def slowly() -> int:
        counted.wait(10)
        return 5

    sampler = Sampler("pgqueue", replace(options, sample_every=0.1), Counts(), slowly)
    sampler.start()
    samples = samples_of(capsys, lambda told: rates_of(told) >= 3)
    counted.set()
    sampler.stop()

    assert rates_of(samples) >= 3
    assert "queue_depth" not in {each["metric"] for each in samples}


def test_the_first_of_several_replicas_alone_counts_what_waits(
    options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace(options, sample_every=0.05, instance=1)
    sampler = Sampler("pgqueue", options, Counts(), lambda: 5)
    sampler.start()
    samples = samples_of(capsys, lambda told: rates_of(told) >= 2)
    sampler.stop()

    assert {each["metric"] for each in samples}.isdisjoint({"queue_depth", "producer_target_rate"})


def samples_of(
    capsys: pytest.CaptureFixture[str], are_enough: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Return the samples that were printed until they are enough."""
    told: list[dict[str, Any]] = []

    def read() -> bool:
        told.extend(json.loads(line) for line in capsys.readouterr().out.splitlines())
        return are_enough(told)

    eventually(read)
    return told


def rates_of(samples: list[dict[str, Any]]) -> int:
    return sum(each["metric"] == "completion_rate" for each in samples)


def test_the_manifest_names_tables_that_exist(db: None) -> None:
    from django.db import connection

    manifest = json.loads(MANIFEST.read_text())
    with connection.cursor() as cursor:
        for name in (*manifest["event_tables"], *manifest["event_indexes"]):
            cursor.execute("SELECT to_regclass(%s)", [name])
            assert cursor.fetchone() != (None,), name


REPORT = report_of(
    "neutral",
    [Round({"awa_done_per_s_clean": 799.96, "awa_dead_chaos": 12.0}, {})],
    on={},
    minutes=0.8,
    remarks={"awa": "awa 0.6"},
)


def test_a_table_has_a_row_for_each_phase_and_a_dash_for_a_figure_that_no_sample_had() -> None:
    head, _, clean, *_, chaos = table.lines(REPORT)

    assert head == (
        "|  | phase | ended runs, per s | p99 of the waits, ms | most that waited | dead rows |"
    )
    assert clean == "| awa 0.6 | clean | 800 | – | – | – |"
    assert chaos == "| awa 0.6 | chaos | – | – | – | 12 |"


def test_a_page_takes_the_table_of_a_report(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text(f"Before.\n{pages.begin('neutral')}an older table\n{pages.END}After.\n")

    pages.write([REPORT, replace(REPORT, benchmark="drain")], folder=tmp_path)

    shown = "\n".join(table.lines(REPORT))
    assert page.read_text() == (
        f"Before.\n{pages.begin('neutral')}\n{shown}\n\n{pages.END}After.\n"
    )


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="must have the comment .*neutral"):
        pages.written("a page", "neutral", [])


@pytest.mark.parametrize("part", [["pgqueue"], ["--phase", "clean"]])
def test_a_part_of_the_scenarios_is_not_written(
    part: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options_of([*part, "--write"])

    assert "--write needs all systems and phases" in capsys.readouterr().err
