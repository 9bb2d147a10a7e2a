"""The examples of docs/pipeline.md run, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from pgqueue.spark.options import NAMES
from pgqueue.spark.tables import TABLES
from tests.factories import Connection, ended
from tests.spark.conftest import wait_for_horizon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"


@pytest.mark.spark
def test_the_examples_run(
    spark: SparkSession,
    url: str,
    connection: Connection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended(connection, 3)
    wait_for_horizon(url)
    module = ModuleType("example")

    for example in re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S):
        # Spark's processes have their environment since the session began.
        example = example.replace('"env:DATABASE_URL"', repr(url))
        exec(compile(example, PAGE.name, "exec"), module.__dict__)  # noqa: S102

    assert "tests.task|succeeded|    3|" in capsys.readouterr().out


def test_every_table_and_option_is_described() -> None:
    text = PAGE.read_text("utf-8")

    assert [name for name in [*TABLES, *NAMES.values()] if f"`{name}`" not in text] == []
