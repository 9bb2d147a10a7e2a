"""Assets of Dagster: the queue's export, and a report of it.

    dagster dev -f pgqueue_assets.py

The project's own Python runs the commands, so that Dagster's environment needs neither the project
nor pgqueue. These variables name both:

    PGQUEUE_PROJECT  the folder of manage.py (/srv/shop)
    PGQUEUE_PYTHON   the Python of the project (/srv/shop/.venv/bin/python)
    PGQUEUE_LAKE     the folder or the URL of the export (/srv/lake/queue)
    PGQUEUE_REPORT   the file of the report (/srv/lake/report.html)

Only one export writes to a folder at a time. Dagster's pools have no limit by default, so give them
one in dagster.yaml:

    concurrency:
      pools:
        default_limit: 1
"""

import json
import os
import subprocess
from typing import Any

import dagster as dg

PROJECT = os.environ.get("PGQUEUE_PROJECT", "/srv/shop")
PYTHON = os.environ.get("PGQUEUE_PYTHON", f"{PROJECT}/.venv/bin/python")
LAKE = os.environ.get("PGQUEUE_LAKE", "/srv/lake/queue")
REPORT = os.environ.get("PGQUEUE_REPORT", "/srv/lake/report.html")


def manage(*command: str) -> Any:
    """Run a command of manage.py; return the document that it prints."""
    run = subprocess.run(
        [PYTHON, "manage.py", *command, "--format", "json"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    if run.returncode:
        raise dg.Failure(run.stderr.strip())
    return json.loads(run.stdout)


@dg.asset(group_name="pgqueue", pool="pgqueue_export")
def queue_export() -> dg.MaterializeResult:
    """The messages that ended and the events, as Parquet; each run adds the new ones."""
    found = manage("pgqueue_export", "--to", LAKE)
    rows = found["history"] + found["events"]
    return dg.MaterializeResult(metadata={**found, "dagster/partition_row_count": rows})


@dg.asset(group_name="pgqueue", deps=[queue_export])
def queue_report() -> dg.MaterializeResult:
    """A page about the exported messages: outcomes, waits, run times and errors."""
    [summary] = manage("pgqueue_report", "--from", LAKE, "--html", REPORT)["summary"]
    page = dg.MetadataValue.path(REPORT)
    return dg.MaterializeResult(metadata={"page": page, "summary": dg.MetadataValue.json(summary)})


defs = dg.Definitions(
    assets=[queue_export, queue_report],
    schedules=[
        dg.ScheduleDefinition(name="hourly", target=[queue_export], cron_schedule="0 * * * *"),
        dg.ScheduleDefinition(name="nightly", target=[queue_report], cron_schedule="0 3 * * *"),
    ],
)
