"""Spark, and the database as it sees it: by a connection URL, and only what is committed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
import psycopg
import pytest

from pgqueue.database.connections import conninfo
from tests.eventually import eventually

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).parent
# With a newer Django than 5.2, only `make test-spark` installs it.
if django.VERSION >= (6, 0) and find_spec("pyspark") is None:
    collect_ignore_glob = ["test_*.py"]

Read = Callable[..., "pa.Table"]
Load = Callable[..., "DataFrame"]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what needs a session of Spark, or tables that others left no blocks in, in one process.

    A second session takes 20 seconds. What needs one is left to `make test-spark`. If a test is
    ended for want of time, so is the session, and all others fail: a busy machine takes long.
    """
    for item in items:
        if HERE not in item.path.parents:
            continue
        fixtures = {"spark", "url"} & set(getattr(item, "fixturenames", ()))
        if fixtures:
            item.add_marker(pytest.mark.xdist_group("spark"))
        if "spark" in fixtures:
            item.add_marker(pytest.mark.spark)
        if fixtures and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(400))


@pytest.fixture
def url(transactional_db: None) -> str:
    """Where the test's database is."""
    return conninfo("default")


def wait_for_horizon(url: str) -> None:
    """Wait until streams see all that is committed: other tests' transactions hold them back."""
    query = (
        "SELECT coalesce(max(txid), 0) < pg_snapshot_xmin(pg_current_snapshot())::text::bigint "
        "FROM pgqueue_history"
    )
    with psycopg.connect(url, autocommit=True) as connection:
        eventually(lambda: connection.execute(query).fetchone() == (True,), within=300)


@pytest.fixture(autouse=True)
def _snapshots_end_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the snapshots that tests have held end when no partition was read for two seconds."""
    monkeypatch.setattr("pgqueue.arrow.planning.HELD_FOR", 2.0)


@pytest.fixture
def connection(url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection of the test's own."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def read(url: str) -> Read:
    """Read a table as Spark's processes do, without Spark: one part after the other."""
    import pyarrow as pa

    from pgqueue.arrow.copying import arrow_schema
    from pgqueue.arrow.options import read_options
    from pgqueue.arrow.planning import plan
    from pgqueue.arrow.reading import batches

    def read(table: str, **given: str) -> pa.Table:
        options = read_options({"url": url, "table": table, **given})
        found = [batch for part in plan(options) for batch in batches(options, part)]
        return pa.Table.from_batches(found, schema=arrow_schema(options.columns))

    return read


@pytest.fixture(scope="session", autouse=True)
def _each_jvm_starts_soon() -> Iterator[None]:
    """Let the JVMs that tests start compile less: in this process and in others."""
    with pytest.MonkeyPatch.context() as patch:
        if "SPARK_CONF_DIR" not in os.environ:
            patch.setenv("SPARK_CONF_DIR", str(HERE / "conf"))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One session for all tests."""
    import pgqueue.spark

    folder = tmp_path_factory.mktemp("spark")
    session = pgqueue.spark.session(
        **{
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file://{folder}",
        }
    )
    yield session
    session.stop()


@pytest.fixture
def load(spark: SparkSession, url: str) -> Load:
    """Load a table by Spark."""

    def load(table: str, **given: str) -> DataFrame:
        return spark.read.format("pgqueue").options(url=url, table=table, **given).load()

    return load
