"""What an export has is what PostgreSQL has: of any value, of a million rows, of one cluster."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pandas
import pytest

from pgqueue.models import Export
from pgqueue.spark.errors import reason
from pgqueue.spark.pipeline.rates import rates, rolled_up
from pgqueue.spark.pipeline.runs import runs
from pgqueue.spark.pipeline.sources import Folder
from tests.factories import Connection, ended
from tests.spark.conftest import Load
from tests.spark.test_export import HISTORY, exported, run
from tests.spark.test_reading import AWKWARD
from tests.spark.test_writing import write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 1_000_000
DAYS = range(3, 8)
FILL = """
    INSERT INTO pgqueue_history (id, channel, key, task, payload, metadata, priority, run_at,
        worker_id, attempt, failures, lost, max_attempts, ordered, errors, claimed_at, started_at,
        created_at, outcome, finished_at)
    SELECT nextval('pgqueue_message_id_seq'), 'channel-' || (8 * a * a)::int,
           CASE WHEN b < 0.6 THEN 'key-' || (5000 * b * b * b)::int ELSE '' END,
           'shop.task_' || (30 * c)::int, '{"args": []}', '{}', 0, due,
           CASE WHEN outcome = 'succeeded' THEN gen_random_uuid() END,
           CASE WHEN outcome <> 'expired' THEN failures + 1 ELSE 0 END,
           failures, 0, 5, false,
           CASE WHEN failures > 0
                THEN jsonb_build_array(jsonb_build_object('attempt', failures, 'class', 'shop.Oops',
                     'message', 'Oops', 'at', created_at + 0.7 * (due - created_at)))
                ELSE '[]' END,
           due, CASE WHEN outcome <> 'expired' THEN due + wait END,
           created_at, outcome, due + wait + run
    FROM (SELECT *, created_at + CASE WHEN failures > 0 OR d < 0.2 THEN d * interval '1 hour'
                                      ELSE interval '0' END AS due
          FROM (SELECT random() AS a, random() AS b, random() AS c, random() AS d,
                       CASE WHEN random() < 0.1 THEN 1 ELSE 0 END AS failures,
                       (ARRAY['expired', 'cancelled', 'succeeded'])[
                           least(3, 1 + floor(30 * random()))::int] AS outcome,
                       -ln(1 - random()) * interval '3 s' AS wait,
                       -ln(1 - random()) * interval '2 s' AS run,
                       %(begin)s::timestamptz + n * interval '116 hours' / %(rows)s AS created_at
                FROM generate_series(1, %(rows)s) n) drawn) messages
"""
SUMS = """
    SELECT count(*), count(*) FILTER (WHERE outcome <> 'succeeded'), sum(failures), sum(attempt),
           count(started_at), {times}
    FROM {rows} GROUP BY {day} ORDER BY {day}
"""
TIMES = ("created_at", "run_at", "started_at", "finished_at")
WAITED = """
    CREATE TEMP TABLE waited AS
    SELECT channel, task, key, extract(hour FROM finished_at AT TIME ZONE 'UTC')::int AS hour,
           CASE WHEN worker_id IS NOT NULL AND started_at >= due
                THEN extract(epoch FROM started_at - due)::float8 END AS wait
    FROM pgqueue_history CROSS JOIN LATERAL (
        SELECT greatest(run_at, created_at, (errors -> -1 ->> 'at')::timestamptz) AS due) d
"""
PERCENTILES = """
    SELECT {by}, messages, p[1], p[2], p[3]
    FROM (SELECT {by}, count(*),
                 percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY wait) AS p
          FROM waited WHERE {by}::text <> '' GROUP BY {by}) groups ({by}, messages, p)
"""
WANTED = ["messages", "wait_p50_s", "wait_p95_s", "wait_p99_s"]


@pytest.fixture
def past_days(connection: Connection) -> Iterator[datetime]:
    """Days of history of this test's own; return when the first one begins."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    names = []
    for ago in DAYS:
        day = today - timedelta(days=ago)
        names.append(f"pgqueue_history_{day:%Y%m%d}")
        connection.execute(
            f"CREATE TABLE {names[-1]} PARTITION OF pgqueue_history "
            f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
        )
    yield today - timedelta(days=max(DAYS))
    for name in names:
        connection.execute(f"DROP TABLE {name}")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_of_a_million_messages_it_gives_the_sums_and_percentiles_of_postgresql(
    spark: SparkSession, url: str, connection: Connection, past_days: datetime, tmp_path: Path
) -> None:
    connection.execute("SELECT setseed(0.5)")
    connection.execute(FILL, {"begin": past_days, "rows": ROWS})

    done = run(spark, url, tmp_path)

    assert done.history == ROWS
    micros = ", ".join(f"sum((extract(epoch FROM {each}) * 1000000)::bigint)" for each in TIMES)
    day = "(finished_at AT TIME ZONE 'UTC')::date"
    expected = connection.execute(
        SUMS.format(times=micros, rows="pgqueue_history", day=day)
    ).fetchall()
    epochs = ", ".join(f"sum(epoch_us({each}))" for each in TIMES)
    files = f"read_parquet('{tmp_path}/{HISTORY}', hive_partitioning = true)"
    found = duckdb.sql(SUMS.format(times=epochs, rows=files, day="day")).fetchall()
    assert len(expected) == len(DAYS)
    assert found == [tuple(map(int, row)) for row in expected]

    tables = Folder(str(tmp_path)).read(spark, None, None)
    all_runs = runs(tables.history, tables.deadletters).drop("errors").cache()
    parts = rates(all_runs, exact=True, keys=10_000)
    all_runs.unpersist()
    groups = {by: rolled_up(parts, by) for by in ("channel", "task", "hour", "key")}
    connection.execute(WAITED)
    for by, frame in groups.items():
        rows = connection.execute(PERCENTILES.format(by=by)).fetchall()
        of_postgresql = pandas.DataFrame(rows, columns=[by, *WANTED]).set_index(by).sort_index()
        mine = frame.set_index(by)[WANTED].sort_index()
        pandas.testing.assert_frame_equal(
            mine, of_postgresql.astype(mine.dtypes), check_index_type=False, rtol=1e-12
        )
    assert len(groups["key"]) > 1000


def test_awkward_values_are_the_same_to_every_reader(
    spark: SparkSession, url: str, connection: Connection, load: Load, tmp_path: Path
) -> None:
    dbname = connection.info.dbname
    moment = datetime(2031, 3, 30, 0, 59, 59, 999999, tzinfo=UTC)
    given = []
    for number, text in enumerate(AWKWARD):
        inner = {"text": text, "rows": [{"n": 2**53 + 1, "text": text}, None], "none": None}
        body = None if number == 1 else text.encode() + bytes(range(256)) * (number > 0)
        dedupe = None if number % 2 else text and f"{number}{text}"
        given.append((text, dedupe, inner, {"of": text}, body, moment, number))
    frame = spark.createDataFrame(
        given,
        "key string, dedupe_key string, "
        "kwargs struct<text: string, rows: array<struct<n: bigint, text: string>>, none: string>, "
        "metadata map<string, string>, body binary, expires_at timestamp, priority int",
    )
    columns = ["key", "dedupe_key", "payload", "metadata", "body", "expires_at", "priority"]
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    try:
        connection.execute(f"ALTER DATABASE {dbname} SET timezone = 'Asia/Kathmandu'")
        connection.execute(f"ALTER DATABASE {dbname} SET datestyle = 'German, DMY'")
        connection.execute(f"ALTER DATABASE {dbname} SET bytea_output = 'escape'")
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        write(frame, url, task="tests.task")
        live = load("messages").select(*columns).toArrow().to_pylist()
        write(load("messages").select("id"), url, operation="cancel")
        ended(connection, at=midnight - timedelta(microseconds=1), channel="before")
        ended(connection, at=midnight, channel="after")
        run(spark, url, tmp_path, redact=None)  # else bodies would be left out
        by_spark = spark.read.parquet(f"{tmp_path}/history").toArrow().to_pylist()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        connection.execute(f"ALTER DATABASE {dbname} RESET ALL")

    files = sorted(tmp_path.glob(HISTORY))
    by_pandas = pandas.concat(map(pandas.read_parquet, files)).to_dict("records")
    names = ", ".join(columns[:-2])
    by_duckdb = duckdb.sql(
        f"SELECT {names}, epoch_us(expires_at) AS expires_at, priority, channel "  # noqa: S608
        f"FROM read_parquet('{tmp_path}/{HISTORY}')"
    )
    of_duckdb = [dict(zip(by_duckdb.columns, row, strict=True)) for row in by_duckdb.fetchall()]
    assert len(by_spark) == len(given) + 2
    for rows in (live, by_spark, by_pandas, of_duckdb):
        mine = [row for row in rows if row.get("channel", "default") == "default"]
        assert sorted((plain(row) for row in mine), key=lambda row: row[-1]) == [
            (key, dedupe, {"args": [], "kwargs": inner}, metadata, body, micros(moment), number)
            for key, dedupe, inner, metadata, body, _, number in given
        ]
    days = {row["channel"]: row["day"] for row in by_spark}
    assert days["before"] == (midnight - timedelta(days=1)).date()
    assert days["after"] == midnight.date()


def plain(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a row says, however its reader represents it."""
    expires = row["expires_at"]
    return (
        row["key"],
        row["dedupe_key"],
        json.loads(row["payload"]),
        json.loads(row["metadata"]),
        row["body"],
        expires if isinstance(expires, int) else micros(expires),
        row["priority"],
    )


def micros(time: datetime) -> int:
    """Return the microseconds since 1970; a time without a zone is in UTC, as Parquet's are."""
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@pytest.mark.parametrize("is_begun", [False, True], ids=["done", "begun"])
def test_a_folder_of_another_cluster_is_refused(
    spark: SparkSession, url: str, connection: Connection, tmp_path: Path, is_begun: bool
) -> None:
    ended(connection, 6)
    run(spark, url, tmp_path, batch=3)
    before = exported(tmp_path)
    if is_begun:
        # Interrupted in its first batch, and then in a database that knows nothing of it.
        shutil.rmtree(tmp_path / "_checkpoint" / "commits")
        for path in (tmp_path / "_checkpoint" / "offsets").glob("*[!0]*"):
            if path.name not in ("0", ".0.crc"):
                path.unlink()
        Export.objects.all().delete()
    # As the checkpoint of another cluster says it.
    for path in (tmp_path / "_checkpoint" / "offsets").glob("[0-9]*"):
        *head, last = path.read_text().splitlines()
        path.write_text("\n".join([*head, json.dumps({**json.loads(last), "database": "1"})]))
        path.with_name(f".{path.name}.crc").unlink()
    ended(connection, 2)

    with pytest.raises(Exception, match="another one, or one that was restored") as raised:
        run(spark, url, tmp_path, batch=3)

    assert "follows the database 1, and this is" in reason(raised.value)
    assert exported(tmp_path) == before
    if is_begun:
        # Not even the batch that was begun elsewhere was written from here.
        assert not (tmp_path / "_checkpoint" / "commits" / "0").exists()
