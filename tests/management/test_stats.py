"""`manage.py pgqueue_stats`."""

from __future__ import annotations

from uuid import uuid4

import pytest

from pgqueue import Channel
from pgqueue.engine import run_statistics
from pgqueue.engine.run_statistics import BUCKETS, Counts
from tests.factories import Connection, enqueue, insert, register, run
from tests.management.calling import call

ERROR = (
    '[{"class": "shop.tasks.ForkliftStuck", "message": "It is free again soon.", '
    '"release": "2026.11.3"}]'
)


KEYS = {"window", "channels", "tasks", "workers", "dead"}


def counted(**counts: int) -> Counts:
    """Return counts of a task, whose runs waited 3 ms and took 6 ms."""
    total = sum(counts.values())
    waits, runs = ([0] * BUCKETS for _ in range(2))
    waits[run_statistics.bucket(0.003)] = runs[run_statistics.bucket(0.006)] = total
    none = dict.fromkeys(("succeeded", "failed", "dead", "deferred", "discarded", "cancelled"), 0)
    return Counts("mail", "shop.tasks.send", **{**none, **counts}, waited=0.003 * total,
                  ran=0.006 * total, waits=waits, runs=runs)  # fmt: skip


@pytest.fixture
def busy(queue: Connection) -> int:
    """A queue of which there is something to say; the id of what runs."""
    enqueue(queue, 3, channel="mail")
    [claim] = run(queue, worker_id=register(queue))
    for _ in range(2):
        insert(queue, channel="mail", state="dead", errors=ERROR, claimed_at="2026-01-02T00:00Z",
               task="shop.tasks.send")  # fmt: skip
    run_statistics.add(queue, [counted(succeeded=6, failed=3, dead=1)], source=uuid4(), batch=1)
    Channel("mail").pause()
    return claim.id


def test_the_document_has_the_keys_that_are_documented(busy: int) -> None:
    found = call("pgqueue_stats", "--format=json").json

    mail, task = found["channels"]["mail"], found["tasks"][0]
    assert set(found) == KEYS
    assert (mail["ready"], mail["dead"], mail["paused"], mail["raised"]) == (3, 2, True, 4)
    assert (found["channels"]["default"]["running"], found["window"]) == (1, "hour")
    assert (task["channel"], task["task"], task["runs"]) == ("mail", "shop.tasks.send", 10)
    assert (task["succeeded"], task["failed"], task["dead"]) == (6, 3, 1)
    assert task["failure_rate"] == 0.4
    assert 0.002 <= task["wait_p50"] <= 0.004 <= task["run_p95"] <= 0.008
    [worker] = found["workers"]
    assert (worker["host"], worker["pid"], worker["alive"]) == ("somewhere", 1, True)
    assert [each["id"] for each in worker["running"]] == [busy]
    [dead] = found["dead"]
    assert (dead["error"], dead["letters"]) == ("shop.tasks.ForkliftStuck", 2)
    assert dead["message"] == "It is free again soon."
    assert dead["releases"] == ["2026.11.3"]
    assert dead["last_at"] == "2026-01-02T00:00:00+00:00"


def test_people_are_told_the_same_in_tables(busy: int) -> None:
    out = call("pgqueue_stats").out

    assert "Runs in the last hour:" in out
    assert "4 (40%)" in out
    assert "somewhere:1" in out
    assert f"tests.task #{busy}" in out
    assert "shop.tasks.ForkliftStuck" in out
    assert "paused" in out


def test_channels_may_be_chosen(busy: int) -> None:
    found = call("pgqueue_stats", "--channel=other", "--channel=default", "--format=json").json

    assert set(found["channels"]) == {"other", "default"}
    assert (found["tasks"], found["dead"]) == ([], [])
    assert len(found["workers"]) == 1


def test_what_there_is_not_is_none(db: None) -> None:
    assert call("pgqueue_stats").out.count("\n  none\n") == 4
    assert call("pgqueue_stats", "--window=month", "--format=json").json["window"] == "month"
