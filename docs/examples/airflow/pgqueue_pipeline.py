"""Export the queue each hour, and make a report of the export each night.

Put this file into Airflow's folder of DAGs. The project's own Python runs the commands, so that
Airflow's environment needs neither the project nor pgqueue. These variables name both:

    PGQUEUE_PROJECT  the folder of manage.py (/srv/shop)
    PGQUEUE_PYTHON   the Python of the project (/srv/shop/.venv/bin/python)
    PGQUEUE_LAKE     the folder or the URL of the export (/srv/lake/queue)
    PGQUEUE_REPORT   the file of the report (/srv/lake/report.html)
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator

PROJECT = os.environ.get("PGQUEUE_PROJECT", "/srv/shop")
PYTHON = os.environ.get("PGQUEUE_PYTHON", f"{PROJECT}/.venv/bin/python")
LAKE = os.environ.get("PGQUEUE_LAKE", "/srv/lake/queue")
REPORT = os.environ.get("PGQUEUE_REPORT", "/srv/lake/report.html")


class ManageOperator(BaseOperator):
    """Run a command of manage.py; return the document that it prints.

    Args:
        command: the name of the command and its options. Templates are rendered.

    Raises:
        RuntimeError: the command failed, for the reason that the error names.
    """

    template_fields: Sequence[str] = ("command",)

    def __init__(self, *, command: Sequence[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.command = command
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Any) -> Any:
        self._process = subprocess.Popen(
            [PYTHON, "manage.py", *self.command, "--format", "json"],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        said, error = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(error.strip())
        return json.loads(said)

    def on_kill(self) -> None:
        """End the command: the next export goes on where this one was."""
        if self._process is not None:
            self._process.terminate()


with DAG(
    "pgqueue_export",
    schedule=timedelta(hours=1),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    # Only one export writes to a folder at a time.
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    ManageOperator(task_id="export", command=["pgqueue_export", "--to", LAKE])

with DAG(
    "pgqueue_report",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
):
    ManageOperator(
        task_id="report",
        command=[
            *("pgqueue_report", "--from", LAKE, "--html", REPORT),
            *("--since", "{{ (dag_run.run_after - macros.timedelta(days=7)).isoformat() }}"),
        ],
        do_xcom_push=False,  # It has all tables of the report.
    )
