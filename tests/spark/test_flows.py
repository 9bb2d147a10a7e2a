"""What Spark says of flows that workers ran is what a plain evaluation in Python finds."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from psycopg.sql import SQL

from pgqueue import Discard, TaskContext, flow, task
from pgqueue.arrow.options import read_options
from pgqueue.arrow.planning import plan
from pgqueue.arrow.reading import _rows, prepare, query
from pgqueue.arrow.tables import HISTORY
from pgqueue.engine import flows as engine
from pgqueue.models import Dependency, Flow, History
from pgqueue.spark.export import export
from pgqueue.spark.page import render
from pgqueue.spark.pipeline import flows
from pgqueue.spark.pipeline.material import Material
from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.pipeline.runs import runs
from pgqueue.spark.pipeline.sources import Folder, Live, Source
from pgqueue.spark.report import build
from pgqueue.spark.summary import text
from tests.factories import Connection, ended
from tests.spark.conftest import Read, wait_for_horizon
from tests.spark.messages import FLOW

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

approx = partial(pytest.approx, abs=1e-5)


@task
def rest(seconds: float = 0, *_: Any) -> None:
    sleep(seconds)


@task(max_attempts=2, backoff=[0], takes_context=True)
def stumble(context: TaskContext, *_: Any) -> None:
    if context.attempt == 1:
        raise ValueError("not yet")


@task(takes_context=True)
def grow(context: TaskContext) -> None:
    context.flow.enqueue_many(rest, [(0.01,), (0.02,)], awaited=True)


@task
def give_up() -> None:
    raise Discard("not worth it")


@task(max_attempts=1)
def fail() -> None:
    raise ValueError("no")


@task
def note(flow_id: str) -> None: ...


class Step(NamedTuple):
    """A message on a critical path, as it is evaluated here."""

    message_id: int
    task: str
    waited_s: float
    ready_s: float
    run_s: float


def critical_path(flow_id: int) -> list[Step]:
    """Return the messages each of which was the last parent to end before the next could begin."""
    parents = parents_of(flow_id)
    step = _last(History.objects.filter(flow_id=flow_id))
    path = []
    while step:
        before = _last(parents[step.pk])
        began = max(step.created_at, before.finished_at) if before else step.created_at
        waited = (began - step.created_at).total_seconds()
        # The router let it go a little later; of a retry, run_at is the time of that.
        due = began if step.failures else max(began, step.run_at)
        started = step.started_at or step.finished_at
        path.append(
            Step(
                *(step.pk, step.task, waited),
                (started - due).total_seconds(),
                (step.finished_at - started).total_seconds(),
            )
        )
        step = before
    return path[::-1]


def parents_of(*flow_ids: int) -> dict[int, list[History]]:
    """Return what each message waited for."""
    members = {each.pk: each for each in History.objects.filter(flow_id__in=flow_ids)}
    edges = Dependency.objects.filter(flow_id__in=flow_ids)
    found: dict[int, list[History]] = defaultdict(list)
    for child, parent in edges.values_list("child_id", "parent_id"):
        found[child].append(members[parent])
    return found


def _last(members: Any) -> Any:
    return max(members, key=lambda each: (each.finished_at, each.pk), default=None)


def duration(flow_id: int) -> float:
    ended = max(History.objects.filter(flow_id=flow_id).values_list("finished_at", flat=True))
    return float((ended - Flow.objects.get(pk=flow_id).created_at).total_seconds())


def run_flows() -> list[int]:
    """Store flows of several shapes, have a worker run them, and return their ids."""
    found = []
    for seconds in (0.01, 0.03, 0.02):
        with flow("import") as f:
            parts = [f.enqueue(rest, each) for each in (0, seconds, 0)]
            merged = f.enqueue(stumble, after=parts)
            f.enqueue(rest, after=[merged, parts[0]])
        found.append(int(f.id))
    with flow("crawl", on_end=note) as f:
        f.enqueue(rest, after=f.enqueue(grow))
        bad = f.enqueue(give_up)
        f.enqueue(rest, after=bad, on_failure="run")
        f.enqueue(rest, after=bad)
    found.append(int(f.id))
    call_command("runworker", "--drain", verbosity=0)
    return found


class TestColumns:
    def test_say_what_a_message_waited_for_last(self, read: Read) -> None:
        ids = run_flows()

        rows = read("history", columns="id, flow_id, flow_name, freed_by, freed_at").to_pylist()

        assert len(rows) == 3 * 5 + 8
        by_id = {row["id"]: row for row in rows}
        ended_at = dict(History.objects.values_list("pk", "finished_at"))
        parents = parents_of(*ids)
        for id, row in by_id.items():
            last = _last(parents[id])
            assert row["freed_by"] == (last and last.pk)
            assert row["freed_at"] == (last and ended_at[last.pk])
            assert row["flow_name"] == ("crawl" if row["flow_id"] == ids[-1] else "import")

    def test_say_of_a_flow_that_it_is_over_only_when_it_is(
        self, read: Read, connection: Connection
    ) -> None:
        with flow("waits") as f:
            first = f.enqueue(rest)
            last = f.enqueue(rest.using(run_after=3600), after=first)
        call_command("runworker", "--drain", verbosity=0)

        [row] = read("history").to_pylist()
        [waiting] = read("messages").to_pylist()
        last.cancel()
        before = datetime.now(UTC)
        ended = read("history", columns="flow_ended_at").to_pylist()
        engine.end(connection)
        noted = read("history", columns="flow_ended_at").to_pylist()

        stored = Flow.objects.get()
        assert row["flow_ended_at"] is None
        assert row["flow_created_at"] == waiting["flow_created_at"] == stored.created_at
        assert waiting["freed_by"] == int(first.id)
        assert all(each["flow_ended_at"] >= before - timedelta(seconds=1) for each in ended)
        assert noted == 2 * [{"flow_ended_at": stored.ended_at}]

    def test_of_what_waits_and_of_what_is_dead_are_known(self, read: Read) -> None:
        with flow("stuck") as f:
            bad = f.enqueue(fail, after=f.enqueue(rest))
            end = f.enqueue(rest, after=bad)
            other = f.enqueue(rest, after=bad, on_failure="run")
        call_command("runworker", "--drain", verbosity=0)

        [letter] = read("deadletters").to_pylist()
        [waiting] = read("messages").to_pylist()
        ended = {row["id"]: row for row in read("history").to_pylist()}

        assert (letter["id"], letter["freed_by"]) == (int(bad.id), int(bad.id) - 1)
        assert (waiting["id"], waiting["freed_by"]) == (int(end.id), None)
        # It died, and that was enough.
        assert ended[int(other.id)]["freed_by"] == int(bad.id)
        assert ended[int(other.id)]["freed_at"] == letter["died_at"]

    def test_are_looked_up_by_indexes_alone_whatever_the_statistics_say(
        self, url: str, connection: Connection
    ) -> None:
        ended(connection, 100)
        # For all that is known of these, any message may have waited for a thousand.
        engine.depend(connection, 1, [(2000, parent) for parent in range(1000)])
        connection.execute("ANALYZE pgqueue_dependency")
        options = read_options({"url": url, "table": "history"})
        [part] = plan(options)
        rows = _rows(part, part.stretches[0], None)

        with connection.transaction():
            prepare(connection, options)
            explained = connection.execute(SQL("EXPLAIN ") + query(options, HISTORY, rows))
            lines = [line for (line,) in explained]

        assert any("Index" in line and "pgqueue_dependency" in line for line in lines)
        assert not any("Seq Scan" in line or "Bitmap" in line for line in lines), lines

    def test_of_the_graph_are_tables_of_their_own(self, read: Read) -> None:
        ids = run_flows()

        stored = read("flows").to_pylist()
        edges = read("dependencies").to_pylist()

        assert sorted((row["id"], row["name"]) for row in stored) == list(
            Flow.objects.order_by("pk").values_list("pk", "name")
        )
        assert {(row["flow_id"], row["child_id"], row["parent_id"]) for row in edges} == {
            *Dependency.objects.values_list("flow_id", "child_id", "parent_id")
        }
        assert {row["created_at"] for row in edges} == {row["created_at"] for row in stored}
        assert sorted(row["id"] for row in stored) == ids


@pytest.fixture
def ids(url: str, connection: Connection) -> list[int]:
    """Flows that have ended, and one that has not."""
    found = run_flows()
    with flow("import") as f:
        f.enqueue(rest.using(run_after=3600), after=f.enqueue(rest))
    call_command("runworker", "--drain", verbosity=0)
    engine.end(connection)
    return found


def check(tables: Mapping[str, Any], ids: list[int]) -> None:
    """Check what tables say of these flows, three imports and a crawl."""
    steps = {id: critical_path(id) for id in ids}
    took = {id: duration(id) for id in ids}
    named = {"import": ids[:3], "crawl": ids[3:]}
    rows = tables["flows"].set_index("flow")
    assert set(rows.index) == set(named)
    for name, own in named.items():
        row, times = rows.loc[name], sorted(took[id] for id in own)
        assert (row.flows, row.messages) == (
            len(own),
            History.objects.filter(flow_id__in=own).count(),
        )
        assert row.failed == (1 if name == "crawl" else 0)
        assert (row.duration_p50_s, row.duration_max_s) == approx((median(times), times[-1]))
        longest = max(own, key=lambda id: took[id])
        path = tables["flow_paths"].query("flow == @name")
        assert path["flow_id"].unique().tolist() == [longest]
        assert path["step"].tolist() == list(range(1, len(steps[longest]) + 1))
        assert path["message_id"].tolist() == [step.message_id for step in steps[longest]]
        for column in ("waited_s", "ready_s", "run_s"):
            assert path[column].tolist() == approx([getattr(s, column) for s in steps[longest]])
        every = [step for id in own for step in steps[id]]
        for row in tables["flow_tasks"].query("flow == @name").itertuples():
            of = [step for step in every if step.task == row.task]
            sums = [sum(column) for column in zip(*[step[2:] for step in of], strict=True)]
            assert row.messages == len(of)
            assert [row.waited_total_s, row.ready_total_s, row.run_total_s] == approx(sums)
            assert row.share == approx(
                (sums[1] + sums[2]) / sum(step.ready_s + step.run_s for step in every)
            )


def test_a_report_says_what_a_plain_evaluation_finds(
    spark: SparkSession, url: str, ids: list[int]
) -> None:
    report = build(spark, Live(url))

    check(report.tables, ids)
    page = render(report)
    assert "import took most time" in page
    assert "\nimport  " in text(report)


def flows_of(
    spark: SparkSession,
    source: Source,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Mapping[str, Any]:
    """Return only what a report says of flows."""
    found = source.read(spark, since, until)
    ended = runs(found.history, found.deadletters).cache()
    material = Material(
        runs=ended,
        attempts=ended,
        period=Period(datetime.now(UTC), datetime.now(UTC)),
        exact=True,
        objectives={},
        since=since,
        until=until,
    )
    try:
        return flows.make_flows(material).tables
    finally:
        ended.unpersist()


def test_an_export_has_them_also_beside_files_of_an_older_version(
    spark: SparkSession, url: str, ids: list[int], tmp_path: Path
) -> None:
    wait_for_horizon(url)
    export(spark, url=url, to=str(tmp_path))
    newer = next(tmp_path.glob("history/day=*/batch_id=0/*.parquet"))
    older = tmp_path / "history" / "day=2026-01-01" / "batch_id=0" / "part-0.parquet"
    older.parent.mkdir(parents=True)
    rows = pq.ParquetFile(newer).read().drop_columns([*FLOW])
    pq.write_table(rows, older, use_deprecated_int96_timestamps=True)

    found = Folder(str(tmp_path))

    check(flows_of(spark, found), ids)
    assert found.read(spark, None, None).history.count() == History.objects.count() + rows.num_rows
    # A folder that only an older version has written to.
    shutil.rmtree(newer.parents[1])
    assert not any(len(table) for table in flows_of(spark, found).values())


def test_flows_that_are_not_whole_are_left_out(
    spark: SparkSession, url: str, ids: list[int]
) -> None:
    stored = Flow.objects.in_bulk(ids)

    since = flows_of(spark, Live(url), since=stored[ids[2]].created_at)
    first_end = min(each.ended_at for each in stored.values())
    until = flows_of(spark, Live(url), until=first_end)

    assert set(since["flow_paths"]["flow_id"]) == {ids[2], ids[3]}
    assert {name: table.columns.tolist() for name, table in until.items()} == {
        name: list(columns) for name, columns in flows.COLUMNS.items()
    }
    assert not any(len(table) for table in until.values())
