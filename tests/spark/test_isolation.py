"""Executors load the package without Django, and everyone else loads pgqueue without Spark."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pgqueue.arrow
import pgqueue.lake
import pgqueue.spark
from tests.factories import Connection, ended

WITHOUT_SPARK = [
    each.name
    for room in (pgqueue.arrow, pgqueue.lake)
    for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
]
MODULES = [
    "pyspark_pgqueue",
    *WITHOUT_SPARK,
    *(each.name for each in pkgutil.walk_packages(pgqueue.spark.__path__, "pgqueue.spark.")),
    # What operators do to messages, which Spark does too.
    *(f"pgqueue.engine.{verb}" for verb in ("dead", "cancel", "promote")),
]
READ = """
from pgqueue.arrow.options import read_options
from pgqueue.arrow.planning import plan
from pgqueue.arrow.reading import batches

options = read_options({"table": "history", "columns": "id"})
print(sum(each.num_rows for part in plan(options) for each in batches(options, part)))
"""


def without(absent: list[str], script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script where packages can't be imported, as if they were not installed."""
    block = f"import sys; sys.modules.update(dict.fromkeys({absent}, None))\n"
    return subprocess.run(
        [sys.executable, "-c", block + script],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )


def test_no_module_needs_django() -> None:
    done = without(["django"], "\n".join(f"import {name}" for name in MODULES))

    assert done.returncode == 0, done.stderr


def test_tables_are_read_and_exported_to_a_lake_without_spark() -> None:
    done = without(["pyspark"], "\n".join(f"import {name}" for name in WITHOUT_SPARK))

    assert done.returncode == 0, done.stderr


def test_history_is_read_without_django(url: str, connection: Connection) -> None:
    ended(connection, 3)

    done = without(["django"], READ, DATABASE_URL=url)

    assert (done.stdout, done.stderr) == ("3\n", "")


def test_what_is_missing_is_named() -> None:
    done = without(["pyspark"], "import pgqueue; pgqueue.task; import pgqueue.spark")

    assert "ImportError: pgqueue.spark needs PySpark: pip install 'pgqueue[spark]'" in done.stderr
