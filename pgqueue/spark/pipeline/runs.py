"""Derive from history when each message was due, when it ran, and how it ended.

A row of history keeps the times of a message's last attempt, and of each earlier one that failed
only the end. So what is derived here is measured for the last attempt, and estimated for those
before (see `attempts`).

The `run_at` of a flow's message is the time when it was stored. It could begin at `freed_at`: its
wait since `run_at` is no sign of too few workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pgqueue.spark.pipeline.places import pattern_of, place_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COMMON = (
    *("id", "channel", "key", "task", "priority", "worker_id", "attempt", "failures", "lost"),
    *("created_at", "run_at", "claimed_at", "started_at", "errors"),
    *("flow_id", "flow_name", "flow_created_at", "freed_by", "freed_at"),
)
HISTORY = (*_COMMON, "outcome", "finished_at", "flow_ended_at")
"""The columns that are needed of the table `history`."""
DEADLETTERS = (*_COMMON, "died_at")
"""The columns that are needed of the table `deadletters`."""
MESSAGES = (*_COMMON, "state")
"""The columns that are needed of the table `messages`."""
LOST = "pgqueue.exceptions.LeaseLost"
SHOWN = 300
"""Characters of an error's message that are kept."""
_ERRORS = (
    "array<struct<attempt: int, worker: string, at: string, class: string, message: string, "
    "traceback: string>>"
)


def seconds(since: Column, until: Column) -> Column:
    """Return the seconds between two times."""
    return (F.unix_micros(until) - F.unix_micros(since)) / 1e6


def runs(history: DataFrame, deadletters: DataFrame) -> DataFrame:
    """Derive one row for each message that ended or died.

    Args:
        history: with the columns `HISTORY`.
        deadletters: with the columns `DEADLETTERS`.

    Returns:
        id, channel, key, task, priority, worker_id, attempt, lost;
        claimed_at: when the last attempt was claimed;
        outcome: as in history, or "dead";
        failed: attempts that failed or lost their lease; is_retried: whether others followed them;
        arrived_at: when it was first due (of a message that failed before: when it was created);
        due_at: when its last attempt was due; what waits for others is not due before these ended;
        started_at: when that began; NULL: it ended without one;
        ended_at: when the message ended;
        wait_s: from due_at to started_at; run_s: from started_at to ended_at;
        total_s: from arrived_at to ended_at, if it succeeded or died;
        errors: of its attempts: attempt, worker_id, at, error_class, place, pattern, message;
        of messages of flows: flow_id, flow_name, flow_created_at, flow_ended_at, freed_by, and
        waited_s: from when it was stored until what it waited for had ended.
    """
    columns = [*_COMMON, "outcome", "ended_at", "flow_ended_at"]
    ended = history.withColumnRenamed("finished_at", "ended_at").select(*columns)
    dead = (
        deadletters.withColumn("outcome", F.lit("dead"))
        .withColumnRenamed("died_at", "ended_at")
        .withColumn("flow_ended_at", F.lit(None).cast("timestamp"))
        .select(*columns)
    )
    return _derived(ended.unionByName(dead))


def waiting(messages: DataFrame) -> DataFrame:
    """Derive one row for each live message that is ready or runs: those of `runs` without an end.

    Args:
        messages: with the columns `MESSAGES`.
    """
    live = messages.where(F.col("state").isin("ready", "running"))
    # What has not begun has nothing of its last run but the time when it started.
    started = F.when(F.col("state") == "running", F.col("started_at"))
    nothing = F.lit(None).cast("timestamp")
    return _derived(
        live.withColumn("started_at", started)
        .withColumn("outcome", F.lit("live"))
        .withColumn("ended_at", nothing)
        .withColumn("flow_ended_at", nothing)
    )


def _derived(ended: DataFrame) -> DataFrame:
    is_dead = F.col("outcome") == "dead"
    failed = F.col("failures") + F.col("lost")
    parsed = F.when(F.col("errors") != "[]", F.from_json("errors", _ERRORS))
    before = F.filter("errors", lambda error: error.attempt < F.col("attempt"))
    # A first lost lease leaves run_at as it was.
    again = F.when(failed > 0, F.try_element_at(before, F.lit(-1)).at)
    # greatest() passes over NULL: most messages wait for no others.
    created = F.greatest("created_at", "freed_at")
    due = F.greatest("run_at", created, again)
    lost = F.coalesce(F.try_element_at("errors", F.lit(-1)).error_class == LOST, F.lit(False))
    ran = F.when(is_dead, ~lost).otherwise(F.col("worker_id").isNotNull())
    started = F.when(ran & (F.col("started_at") >= F.col("due_at")), F.col("started_at"))
    is_done = F.col("outcome").isin("succeeded", "dead")
    return (
        ended.withColumn("errors", F.transform(parsed, _error))
        .withColumn("due_at", due)
        .withColumn("started_at", started)
        .withColumn("failed", failed)
        .withColumn("is_retried", failed > is_dead.cast("int"))
        .withColumn("arrived_at", F.when(failed == 0, F.col("due_at")).otherwise(created))
        .withColumn("wait_s", seconds(F.col("due_at"), F.col("started_at")))
        .withColumn("run_s", seconds(F.col("started_at"), F.col("ended_at")))
        .withColumn("total_s", F.when(is_done, seconds(F.col("arrived_at"), F.col("ended_at"))))
        .withColumn("waited_s", seconds(F.col("created_at"), F.col("freed_at")))
        .drop("failures", "created_at", "run_at", "state", "freed_at")
    )


def _error(error: Column) -> Column:
    message = F.substring(error.message, 1, SHOWN)
    return F.struct(
        error.attempt.alias("attempt"),
        error.worker.alias("worker_id"),
        error.at.try_cast("timestamp").alias("at"),
        error["class"].alias("error_class"),
        place_of(error.traceback).alias("place"),
        pattern_of(message).alias("pattern"),
        message.alias("message"),
    )
