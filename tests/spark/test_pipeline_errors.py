"""Errors that are alike are counted together, and the keys that are loud are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from pgqueue.spark.pipeline.attempts import attempts
from pgqueue.spark.pipeline.errors import errors
from pgqueue.spark.pipeline.keys import beside, noisiest_keys, table
from pgqueue.spark.pipeline.material import collected
from pgqueue.spark.pipeline.periods import Period
from pgqueue.spark.pipeline.places import pattern_of, place_of
from pgqueue.spark.pipeline.storms import retries
from tests.spark.messages import BEGIN, at, error, message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FRAME = '  File "{}", line {}, in run\n    call()\n'
OURS, LIBRARY = "/srv/shop/tasks.py", "/venv/lib/python3.11/site-packages/requests/api.py"
pytestmark = pytest.mark.spark


def test_errors_that_are_alike_are_one(spark: SparkSession) -> None:
    rows = [
        message(
            10,
            1,
            1,
            id=pk,
            task=task,
            errors=[error(each, each, message=f"Order {pk} is gone") for each in (1, 2)],
        )
        for pk, task in [(1, "shop.a"), (2, "shop.b")]
    ]
    rows.append(message(0, 1, 1, id=3, errors=[error(1, 9, message="No")], outcome="dead"))

    found = [row.asDict() for row in errors(runs(spark, rows)).collect()]

    assert [(row["pattern"], row["attempts"], row["messages"]) for row in found] == [
        ("Order # is gone", 4, 2),
        ("No", 1, 1),
    ]
    assert found[0]["tasks"] == "shop.a, shop.b"
    assert found[0]["example"] in ("Order 1 is gone", "Order 2 is gone")
    assert (found[0]["last_at"] - found[0]["first_at"]).total_seconds() == 1


def test_times_of_errors_are_in_utc_in_any_time_zone_of_the_session(spark: SparkSession) -> None:
    rows = [message(0, 1, 1, errors=[error(1, 9, message="No")], outcome="dead")]
    frame = errors(runs(spark, rows))
    expected = collected(frame)["first_at"][0]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        found = collected(frame)["first_at"][0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    assert found == expected == at(9)


def test_places_and_patterns(spark: SparkSession) -> None:
    places = {
        FRAME.format(OURS, 1)
        + FRAME.format(OURS, 2)
        + FRAME.format(LIBRARY, 3): f"{OURS}:2 in run",
        FRAME.format(LIBRARY, 3): f"{LIBRARY}:3 in run",
        "  | " + FRAME.format(OURS, 7): f"{OURS}:7 in run",
        FRAME.format(OURS, 4) + FRAME.format("/x/pgqueue/worker/runner.py", 5): f"{OURS}:4 in run",
        "": None,
    }
    patterns = {
        "Order 17 failed": "Order # failed",
        "no 'mail' in \"box\"": "no … in …",
        "it can't be, it isn't": "it can't be, it isn't",
        "id 6fa459ea-ee8a-3ca4-894e-db77e160355e at 0x7f00": "id # at #",
        "first line\nsecond": "first line",
    }
    texts = spark.createDataFrame(
        [(a, b) for a, b in zip(places, patterns, strict=True)], "trace string, message string"
    )

    found = texts.select(place_of(F.col("trace")), pattern_of(F.col("message"))).collect()

    assert [tuple(row) for row in found] == list(
        zip(places.values(), patterns.values(), strict=True)
    )


@pytest.mark.parametrize("exact", [True, False])
def test_a_noisy_key_has_its_share_and_what_the_others_wait(
    spark: SparkSession, exact: bool
) -> None:
    ended = runs(
        spark,
        [
            message(0, 1, 8, id=1, key="loud"),
            message(0, 5, 1, id=2, key="calm", errors=[error(1, 0)]),
            message(0, 7, 1, id=3),
            message(0, 9, 1, id=4, key="other", channel="slow"),
        ],
    )

    noisy = collected(noisiest_keys(ended, keys=2))
    loud, calm = table(noisy, beside(ended, noisy, exact)).itertuples()

    assert (loud.key, calm.key) == ("loud", "calm")
    assert (loud.messages, loud.share, loud.run_share) == (1, pytest.approx(1 / 3), 0.8)
    assert loud.wait_p99_s_of_others == pytest.approx(6.98, abs=1e-9 if exact else 0.05)
    assert (loud.failures, calm.failures) == (0, 1)


def test_retries_are_counted_where_the_failures_were(spark: SparkSession) -> None:
    row = message(20, 1, 1, errors=[error(1, 5), error(2, 8)], created_at=at(0), attempt=3)
    period = Period(BEGIN, at(1000))

    found = retries(attempts(runs(spark, [row])), period).orderBy("bucket").collect()

    # A bucket is 5 seconds wide.
    assert [(each.bucket, each.attempts, each.retries) for each in found] == [(1, 2, 2), (4, 1, 0)]


def test_a_bucket_counts_each_message_once_however_often_it_failed_there(
    spark: SparkSession,
) -> None:
    rows = [
        message(9, 0.5, 0.2, id=1, errors=[error(1, 5), error(2, 8)], created_at=at(0), attempt=3),
        message(5, 1, 1, id=2),
        message(5, 1, 2, id=3),
    ]

    found = retries(attempts(runs(spark, rows)), Period(BEGIN, at(1000))).collect()

    assert [(each.bucket, each.attempts, each.messages) for each in found] == [(1, 5, 3)]
