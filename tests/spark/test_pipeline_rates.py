"""Rates and percentiles are those that DuckDB or a person counts."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import duckdb
import pytest

from pgqueue.spark.pipeline.rates import by_key, rates
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
    plain = ended.toPandas()
    assert len(plain) == 300

    found = rates(ended, exact=True).toPandas()
    keys = by_key(ended, exact=True, keys=1).toPandas()
    ended.unpersist()

    for group, column in [("channel", "channel"), ("task", "task"), ("hour", "hour(ended_at)")]:
        expected = duckdb.sql(f"{CHECK} GROUP BY {column} ORDER BY messages").df()
        rows_of = found[found["by"] == group].sort_values("messages").reset_index(drop=True)
        assert len(expected) >= 2
        for name in expected.columns:
            assert list(rows_of[name]) == pytest.approx(list(expected[name]))
    [every] = duckdb.sql(CHECK).df().to_dict("records")
    [mine] = found[found["by"] == "all"].to_dict("records")
    assert {name: mine[name] for name in every} == pytest.approx(every)
    most = duckdb.sql("SELECT key, count(*) FROM plain WHERE key <> '' GROUP BY 1 ORDER BY 2 DESC")
    assert [(row.key, row.messages) for row in keys.itertuples()] == most.fetchall()[:1]


def test_approximate_percentiles_are_near(spark: SparkSession) -> None:
    rows = [message(0, each / 100, each / 10, id=each) for each in range(101)]

    [found] = (
        rates(runs(spark, rows).where("channel = 'mail'"), exact=False)
        .where("by = 'all'")
        .collect()
    )

    assert found.wait_p50_s == pytest.approx(0.5, abs=0.02)
    assert found.run_p99_s == pytest.approx(9.9, abs=0.2)
    assert (found.success_rate, found.loss_rate) == (1, 0)
