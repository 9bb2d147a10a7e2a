"""Rates and percentiles are those that DuckDB or a person counts."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pytest

from pgqueue.spark.pipeline.material import collected
from pgqueue.spark.pipeline.percentiles import Part, percentiles
from pgqueue.spark.pipeline.rates import rates, rolled_up
from tests.spark.messages import message, runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OUTCOMES = ["succeeded", "dead", "cancelled", "expired", "discarded"]
CHECK = """
    SELECT count(*) messages, count(*) FILTER (outcome = 'dead') dead,
           avg(CASE WHEN is_retried THEN 1 ELSE 0 END) retry_rate,
           quantile_cont(wait_s, 0.5) wait_p50_s, quantile_cont(wait_s, 0.99) wait_p99_s,
           quantile_cont(run_s, 0.95) run_p95_s, coalesce(sum(run_s), 0) run_total_s
    FROM plain
"""


def test_groups_are_what_duckdb_counts(spark: SparkSession) -> None:
    chance = random.Random(7)
    rows = [
        message(
            chance.uniform(0, 9000),
            chance.choice([None, chance.expovariate(1)]),
            chance.expovariate(1),
            id=pk,
            channel=chance.choice(["mail", "slow"]),
            key=chance.choice(["", "a", "b"]),
            task=chance.choice(["shop.a", "shop.b"]),
            outcome=chance.choice(OUTCOMES),
            failures=chance.choice([0, 0, 2]),
        )
        for pk in range(300)
    ]
    ended = runs(spark, rows).drop("errors").cache()
    plain = collected(ended)
    assert len(plain) == 300

    found = rates(ended, exact=True, keys=1)
    ended.unpersist()

    for group, column in [("channel", "channel"), ("task", "task"), ("hour", "hour(ended_at)")]:
        expected = duckdb.sql(f"{CHECK} GROUP BY {column} ORDER BY messages").df()
        rows_of = rolled_up(found, group).sort_values("messages").reset_index(drop=True)
        assert len(expected) >= 2
        for name in expected.columns:
            assert list(rows_of[name]) == pytest.approx(list(expected[name]))
    [every] = duckdb.sql(CHECK).df().to_dict("records")
    [mine] = rolled_up(found).to_dict("records")
    assert {name: mine[name] for name in every} == pytest.approx(every)
    most = duckdb.sql("SELECT key, count(*) FROM plain WHERE key <> '' GROUP BY 1 ORDER BY 2 DESC")
    keys = rolled_up(found, "key")
    assert [(row.key, row.messages) for row in keys.itertuples()] == most.fetchall()[:1]


def test_an_hour_before_1970_is_an_hour_of_the_day(spark: SparkSession) -> None:
    early = datetime(1969, 12, 31, 23, 30, tzinfo=UTC)
    row = message(created_at=early, run_at=early, ended_at=early)

    found = rolled_up(rates(runs(spark, [row]), exact=True), "hour")

    assert list(found["hour"]) == [23]


def test_approximate_percentiles_are_near(spark: SparkSession) -> None:
    rows = [message(0, each / 100, each / 10, id=each) for each in range(101)]

    parts = rates(runs(spark, rows).where("channel = 'mail'"), exact=False)
    [found] = rolled_up(parts).itertuples()

    assert found.wait_p50_s == pytest.approx(0.5, abs=0.02)
    assert found.run_p99_s == pytest.approx(9.9, abs=0.2)
    assert (found.success_rate, found.loss_rate) == (1, 0)


def test_approximate_percentiles_of_several_parts_are_near() -> None:
    values = np.random.default_rng(1).exponential(3, 10_000)
    shares = np.linspace(0, 1, 1001)
    parts = [Part(np.quantile(some, shares), len(some)) for some in (values[:1000], values[1000:])]

    found = percentiles(parts, [0.5, 0.99])

    assert found == pytest.approx(list(np.quantile(values, [0.5, 0.99])), rel=0.02)


def test_what_has_no_values_has_no_percentile() -> None:
    assert np.isnan(percentiles([Part(np.array([]), 0)], [0.5, 0.99])).all()
