"""Flows that have ended: how long they took, and where their critical paths waited.

The critical path of a flow is a chain of messages, found backwards from the message that ended
last. Each message in it is the last parent to end before its child. If several parents ended at
the same time, the chain takes the one with the highest id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.material import Made, Material, collected
from pgqueue.spark.pipeline.percentiles import spread, with_values
from pgqueue.spark.pipeline.runs import seconds

if TYPE_CHECKING:
    import pyarrow as pa
    from pandas import DataFrame as Pandas
    from pyspark.sql import Column, DataFrame

NAMES = 50
"""The most names of flows in the tables: the names with the longest total time."""
STEPS = 100
"""The most messages of one critical path in the table: the last ones."""
ROWS = 10_000
"""The rows of a batch that Python makes."""
DURATIONS = {"duration": {"duration_p50_s": 0.5, "duration_p95_s": 0.95, "duration_max_s": 1.0}}
TIMES = ("waited_s", "ready_s", "run_s")
PATHS = (
    "flow_id bigint, flow string, place int, message_id bigint, task string, waited_s double, "
    "ready_s double, run_s double, messages bigint, failed bigint, duration_s double"
)
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "flows": ("flow", "flows", "failed", "messages", *DURATIONS["duration"]),
    "flow_tasks": ("flow", "task", "messages", *[f"{name[:-1]}total_s" for name in TIMES], "share"),
    "flow_paths": ("flow", "flow_id", "step", "message_id", "task", *TIMES),
}

Row = Mapping[str, Any]


def make_flows(given: Material) -> Made:
    """Make the tables flows, flow_tasks and flow_paths."""
    members = _members(given)
    if members.isEmpty():
        return Made({name: _table([], names) for name, names in COLUMNS.items()})
    paths = critical_paths(members).cache()
    try:
        found = durations(paths, exact=given.exact)
        names, longest = found["flow"].tolist(), found.pop("longest").tolist()
        told = collected(tasks(paths.where(F.col("flow").isin(names))))
        steps = collected(paths.where(F.col("flow_id").isin(longest) & (F.col("place") < STEPS)))
    finally:
        paths.unpersist()
    return Made(
        {
            "flows": _table(spread(found, DURATIONS), COLUMNS["flows"]),
            "flow_tasks": _shares(told, names),
            "flow_paths": _steps(steps, names),
        }
    )


def _members(given: Material) -> DataFrame:
    """Return the runs of flows that were stored after the begin of the read period.

    The result includes flows that had not ended at the end of the period. Every other flow has at
    least one row in which `is_over` is true.
    """
    members = given.runs.where(F.col("flow_id").isNotNull())
    if given.since is not None:
        members = members.where(F.col("flow_created_at") >= F.lit(given.since))
    is_over = F.col("flow_ended_at").isNotNull()
    if given.until is not None:
        is_over &= F.col("flow_ended_at") < F.lit(given.until)
    ready_until = F.coalesce("started_at", "ended_at")
    return members.select(
        "flow_id",
        F.col("flow_name").alias("flow"),
        F.col("id").alias("message_id"),
        "task",
        "freed_by",
        F.unix_micros("ended_at").alias("ended"),
        F.coalesce("waited_s", F.lit(0.0)).alias("waited_s"),
        _at_least_0(seconds(F.col("arrived_at"), ready_until)).alias("ready_s"),
        F.coalesce("run_s", F.lit(0.0)).alias("run_s"),
        (F.col("outcome") != "succeeded").alias("failed"),
        seconds(F.col("flow_created_at"), F.col("ended_at")).alias("ended_s"),
        is_over.alias("is_over"),
    )


def _at_least_0(value: Column) -> Column:
    return F.greatest(value, F.lit(0.0))


def critical_paths(members: DataFrame) -> DataFrame:
    """Return the messages on the critical path of each flow that is over.

    Args:
        members: The columns flow_id, flow (its name), message_id, task, freed_by (the last parent
            to end), ended (microseconds), ended_s (seconds after the flow was stored) and failed.
            The flag is_over tells whether this row shows the end of the flow. The durations are
            waited_s (from its storage to the end of its last parent), ready_s (from then to the
            begin of the last attempt, with earlier attempts) and run_s (the last attempt).

    Returns:
        flow_id, flow, place (0: it ended last), message_id, task, waited_s, ready_s and run_s of
        the message; messages, failed and duration_s of the flow.
    """
    together = members.repartition("flow_id").sortWithinPartitions("flow_id")
    return together.mapInArrow(_critical_paths, PATHS)


def _critical_paths(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    rows = (row for batch in batches for row in batch.to_pylist())
    found = (
        step for _, members in groupby(rows, itemgetter("flow_id")) for step in _path([*members])
    )
    while steps := [*islice(found, ROWS)]:
        yield pa.RecordBatch.from_pylist(steps, schema=_schema())


def _schema() -> pa.Schema:
    import pyarrow as pa

    types = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string(), "double": pa.float64()}
    return pa.schema([(name, types[of]) for name, of in map(str.split, PATHS.split(", "))])


def _path(members: list[Row]) -> Iterator[Row]:
    """Yield the critical path of a flow backwards; yield nothing for a flow that is not over."""
    if not any(row["is_over"] for row in members):
        return
    by_id = {row["message_id"]: row for row in members}
    last = max(members, key=itemgetter("ended", "message_id"))
    whole = {
        "messages": len(members),
        "failed": sum(row["failed"] for row in members),
        "duration_s": last["ended_s"],
    }
    place: int = 0
    step: Row | None = last
    while step is not None:
        yield {**step, **whole, "place": place}
        place, step = place + 1, by_id.get(step["freed_by"])


def durations(paths: DataFrame, *, exact: bool, names: int = NAMES) -> Pandas:
    """Aggregate flows by their names, in descending order of their total time.

    Returns:
        flow, flows, failed (flows with a message that did not succeed), messages, longest (the id
        of a flow), duration and duration_count (see `percentiles.with_values`).
    """
    ended = paths.where("place = 0")
    groups = (
        ended.groupBy("flow")
        .agg(
            F.count("*").alias("flows"),
            F.count(F.when(F.col("failed") > 0, 1)).alias("failed"),
            F.sum("messages").alias("messages"),
            F.max(F.struct("duration_s", "flow_id")).flow_id.alias("longest"),
            F.sum("duration_s").alias("total"),
        )
        .orderBy(F.desc("total"), "flow")
        .limit(names)
        .drop("total")
    )
    return with_values(groups, ended, ["flow"], {"duration": "duration_s"}, exact=exact)


def tasks(paths: DataFrame) -> DataFrame:
    """Add up the times on critical paths by the flow's name and the task."""
    return paths.groupBy("flow", "task").agg(
        F.count("*").alias("messages"),
        *[F.sum(name).alias(f"{name[:-1]}total_s") for name in TIMES],
    )


def _shares(rows: Pandas, names: list[str]) -> Pandas:
    """Return tasks with their share of the total time of their flows' paths."""
    taken = rows["ready_total_s"] + rows["run_total_s"]
    every = taken.groupby(rows["flow"]).transform("sum")
    rows = rows.assign(share=taken / every.where(every > 0), order=rows["flow"].map(names.index))
    rows = rows.sort_values(["order", "share", "task"], ascending=[True, False, True])
    return _table(rows, COLUMNS["flow_tasks"])


def _steps(rows: Pandas, names: list[str]) -> Pandas:
    """Return the steps of paths in order from the first one."""
    first = rows.groupby("flow_id")["place"].transform("max")
    rows = rows.assign(step=first - rows["place"] + 1, order=rows["flow"].map(names.index))
    return _table(rows.sort_values(["order", "step"]), COLUMNS["flow_paths"])


def _table(rows: Any, names: Iterable[str]) -> Pandas:
    import pandas

    return pandas.DataFrame(rows, columns=list(names)).reset_index(drop=True)
