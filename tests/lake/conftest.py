"""Lakes of each format, and the database as an export sees it: only with committed rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests import programs
from tests.spark.conftest import connection, url

if TYPE_CHECKING:
    from tests.lake.lakes import OurLake

__all__ = ["connection", "url"]

NEEDED = ("duckdb_extension_ducklake", "deltalake", "pyiceberg")
if not programs.have(*NEEDED):
    collect_ignore_glob = ["test_*.py"]


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests in one process: exports wait for open transactions of other tests.

    Each format commits a table at a time, which takes as long as a hundred other tests.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("lake"))
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(400))  # longer than `wait_for_horizon`


@pytest.fixture
def all_tables() -> None:
    """Let exports of this test write all tables."""


@pytest.fixture(autouse=True)
def _few_tables(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an export write few tables, which takes less time."""
    if "all_tables" not in request.fixturenames:
        monkeypatch.setattr("pgqueue.lake.exporting.OF_HISTORY", ("history",))
        monkeypatch.setattr("pgqueue.lake.exporting.REPLACED", ("deadletters",))


@pytest.fixture
def delta(url: str, tmp_path: Path) -> OurLake:
    """A lake of the format whose commits take least time."""
    from tests.lake.lakes import InDelta

    return InDelta(url, tmp_path / "lake")


@pytest.fixture(params=["ducklake", "delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest,
    url: str,
    connection: psycopg.Connection[Any],
    tmp_path: Path,
) -> Iterator[OurLake]:
    """A lake of each format, in an empty folder."""
    from tests.lake.lakes import LAKES

    yield LAKES[request.param](url, tmp_path / "lake")
    connection.execute("DROP SCHEMA IF EXISTS pgqueue_lake CASCADE")
