"""The protocol of the neutral benchmark: the pace, the percentiles and the lines of samples."""

from __future__ import annotations

import io
import json
import threading
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

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
    said: list[str] = []
    eventually(lambda: said.extend(capsys.readouterr().out.splitlines()) or len(said) >= 14)
    sampler.stop()

    samples = [json.loads(line) for line in said[:7]]
    found = {each["metric"]: each["value"] for each in samples}
    assert found.keys() >= {
        *("claim_p50_ms", "claim_p95_ms", "claim_p99_ms"),
        *("enqueue_rate", "completion_rate", "queue_depth"),
    }
    assert found["queue_depth"] == 5
    assert {each["kind"] for each in samples} == {"adapter"}


def test_the_manifest_names_tables_that_exist(db: None) -> None:
    from django.db import connection

    manifest = json.loads(MANIFEST.read_text())
    with connection.cursor() as cursor:
        for name in (*manifest["event_tables"], *manifest["event_indexes"]):
            cursor.execute("SELECT to_regclass(%s)", [name])
            assert cursor.fetchone() != (None,), name
