"""The runs of messages: their due times, run times and outcomes, from history.

A row of history has the times of a message's last attempt, and only the end of each earlier failed
attempt. So the values are measured for the last attempt, and estimated for earlier attempts (see
`attempts`).
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
HISTORY = (*_COMMON, "outcome", "finished_at", "flow_ended_at", "steps")
"""The required columns of the table `history`."""
DEADLETTERS = (*_COMMON, "died_at")
"""The required columns of the table `deadletters`."""
MESSAGES = (*_COMMON, "state")
"""The required columns of the table `messages`."""
LIVE = "live"
"""The outcome of a message that has not ended."""
LOST = "pgqueue.exceptions.LeaseLost"
SHOWN = 300
"""The most characters of an error's message."""
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
        The columns id, channel, key, task, priority, worker_id, attempt and lost, and:
        `outcome`: as in history, or "dead";
        `failed`: the number of attempts that failed or lost their lease;
        `is_retried`: whether a retry followed a failure;
        `claimed_at`: when the last attempt was claimed;
        `arrived_at`: when it was first due; for a message that failed before, its creation;
        `due_at`: when its last attempt was due; a child is not due before its parents have ended.
            Of a message that ended before it was due: its end;
        `started_at`: when this attempt began; NULL: the message ended without a run;
        `ended_at`: when the message ended;
        `wait_s`: from due_at to started_at;
        `run_s`: from started_at to ended_at;
        `total_s`: from arrived_at to ended_at, if it succeeded or died;
        `errors`: structs of attempt, worker_id, at, error_class, place, pattern and message.
        `steps`: as in history; of a dead letter NULL.
        A message of a flow has flow_id, flow_name, flow_created_at, flow_ended_at, freed_by, and
        `waited_s`: from its storage to the end of its last parent.
    """
    columns = [*_COMMON, "outcome", "ended_at", "flow_ended_at", "steps"]
    ended = history.withColumnRenamed("finished_at", "ended_at").select(*columns)
    dead = (
        deadletters.withColumn("outcome", F.lit("dead"))
        .withColumnRenamed("died_at", "ended_at")
        .withColumn("flow_ended_at", F.lit(None).cast("timestamp_ltz"))
        .withColumn("steps", F.lit(None).cast("string"))
        .select(*columns)
    )
    return _derived(ended.unionByName(dead))


def waiting(messages: DataFrame) -> DataFrame:
    """Derive one row for each live message that was due, with the columns of `runs` but no end.

    These are the ready and the running messages, and the ones that wait for a retry.

    Args:
        messages: with the columns `MESSAGES`.
    """
    waits_again = (F.col("state") == "scheduled") & (F.col("failures") + F.col("lost") > 0)
    live = messages.where(F.col("state").isin("ready", "running") | waits_again)
    # A ready message still has the start of its last attempt: leave it out.
    started = F.when(F.col("state") == "running", F.col("started_at"))
    nothing = F.lit(None).cast("timestamp_ltz")
    return _derived(
        live.withColumn("started_at", started)
        .withColumn("outcome", F.lit(LIVE))
        .withColumn("ended_at", nothing)
        .withColumn("flow_ended_at", nothing)
        .withColumn("steps", F.lit(None).cast("string"))
    )


def failed_before() -> Column:
    """Return the errors of the attempts before the last one, of a message with errors.

    Without a worker, a message waits for its next attempt, or ended while it waited. So all of its
    errors are of earlier attempts.
    """
    is_last = (F.col("outcome") == "dead") | F.col("worker_id").isNotNull()
    return F.filter("errors", lambda error: ~is_last | (error.attempt < F.col("attempt")))


def _derived(ended: DataFrame) -> DataFrame:
    is_dead = F.col("outcome") == "dead"
    failed = F.col("failures") + F.col("lost")
    parsed = F.when(F.col("errors") != "[]", F.from_json("errors", _ERRORS))
    # A first lost lease does not change run_at.
    again = F.when(failed > 0, F.try_element_at(failed_before(), F.lit(-1)).at)
    # greatest() and least() ignore NULL: most messages have no parents, and live ones no end.
    created = F.greatest("created_at", "freed_at")
    due = F.least(F.greatest("run_at", created, again), "ended_at")
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
        error.at.try_cast("timestamp_ltz").alias("at"),
        error["class"].alias("error_class"),
        place_of(error.traceback).alias("place"),
        pattern_of(message).alias("pattern"),
        message.alias("message"),
    )
