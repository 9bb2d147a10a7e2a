"""Show a few rows of history, as in a notebook, in a process whose stderr a test reads.

Run as `python -m tests.spark.shown`, with DATABASE_URL.
"""

from __future__ import annotations

import pgqueue.spark

if __name__ == "__main__":
    spark = pgqueue.spark.session(**{"spark.driver.memory": "512m"})
    history = spark.read.format("pgqueue").options(url="env:DATABASE_URL", table="history").load()
    history.select("id", "task").show(3)
    print(len(history.select("id").limit(7).collect()), "rows")
    print(len(history.limit(20_000).collect()), "rows")
    spark.stop()
