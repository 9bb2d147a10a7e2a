"""The examples of docs/examples run in Airflow, Dagster and dbt, on exports of a real queue.

The three are in an environment of their own: `make test-orchestrators`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from pgqueue.database.connections import conninfo
from tests import programs
from tests.factories import Connection, bury, ended
from tests.processes import ROOT, database_url
from tests.spark.conftest import wait_for_horizon
from tests.spark.log import publish

pytestmark = [pytest.mark.orchestrators, pytest.mark.timeout(400)]
EXAMPLES = ROOT / "docs" / "examples"
PYTHON = "ORCHESTRATORS_PYTHON"
"""The environment variable that names a Python with the three."""
MATERIALIZE = """
import json
import dagster
from pgqueue_assets import defs, queue_export, queue_report

dagster.Definitions.validate_loadable(defs)
done = dagster.materialize([queue_export, queue_report])
print("found", json.dumps({
    each.asset_key.to_user_string(): each.materialization.metadata[name].value
    for name in ("history", "page")
    for each in done.get_asset_materialization_events()
    if name in each.materialization.metadata
}))
"""

COUNT = """
import duckdb, json, os
found = duckdb.connect(os.environ["PGQUEUE_WAREHOUSE"]).sql("SELECT task, messages FROM task_runs")
print(json.dumps(found.fetchall()))
"""


@pytest.fixture
def connection(transactional_db: None) -> Iterator[Connection]:
    with psycopg.connect(conninfo("default"), autocommit=True) as connection:
        yield connection


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.worker_settings",
        "PGQUEUE_PROJECT": str(ROOT),
        "PGQUEUE_PYTHON": sys.executable,
        "PGQUEUE_LAKE": str(tmp_path / "lake"),
        "PGQUEUE_REPORT": str(tmp_path / "report.html"),
        "PGQUEUE_WAREHOUSE": str(tmp_path / "warehouse.duckdb"),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(EXAMPLES / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "DAGSTER_HOME": str(tmp_path),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "PYTHONPATH": str(EXAMPLES / "dagster"),
    }


def run(program: str, *arguments: str, environment: dict[str, str]) -> str:
    """Run a program of the orchestrators' environment; return what it prints."""
    python = programs.python_of(PYTHON, target="test-orchestrators")
    done = subprocess.run(
        [str(Path(python).with_name(program)), *arguments],
        cwd=EXAMPLES / "dbt",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout


def test_the_examples_export_report_and_read(
    environment: dict[str, str], connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 3)
    bury(connection, 2)
    publish(connection, 2)
    wait_for_horizon(conninfo("default"))

    run("airflow", "db", "migrate", environment=environment)
    broken = run("airflow", "dags", "list-import-errors", environment=environment)
    run("airflow", "dags", "test", "pgqueue_export", environment=environment)
    run("airflow", "dags", "test", "pgqueue_report", environment=environment)
    page = (tmp_path / "report.html").read_text("utf-8")
    (tmp_path / "report.html").unlink()
    ended(connection, 1)
    wait_for_horizon(conninfo("default"))
    said = run("python", "-c", MATERIALIZE, environment=environment)
    paths = [f"--{name}-path={tmp_path / name}" for name in ("target", "log")]
    run("dbt", "build", *paths, environment=environment)
    run("dbt", "source", "freshness", *paths, environment=environment)
    # DuckDB may be newer there.
    counted = run("python", "-c", COUNT, environment=environment)

    assert "No data found" in broken
    assert "<title>" in page
    found = json.loads(said.rpartition("found ")[2])
    assert found == {"queue_export": 1, "queue_report": str(tmp_path / "report.html")}
    assert (tmp_path / "report.html").exists()
    assert json.loads(counted) == [["tests.task", 4]]
