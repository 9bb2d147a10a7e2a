"""Other packages that import Celery, and find pgqueue's in its place: `make test-celery`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests import programs
from tests.compat.celery.test_compared import redis
from tests.compat.celery.test_site import CELERY

HERE = Path(__file__).parent
QUEUED = {"complete": False, "success": None}
STEP = {"pending": False, "total": 2, "description": "copying"}
ENDED = {"pending": False, "current": 100, "total": 100, "percent": 100}
FAILED = {"complete": True, "success": False, "progress": ENDED}
EXPECTED: dict[str, dict[str, Any]] = {
    "singleton": {
        "one id": True,
        "runs": [1, 2],
        "result": [1, 1],
        "another id after the end": True,
        "raises": True,
        "another id after a failure": True,
    },
    "once": {
        "queued": [False, True, False],
        "runs": [1, 2],
        "queued after the end": [False, True],
        "graceful": "REJECTED",
        "runs of its keys": [[1, 2]],
    },
    "before": {"runs": [0], "runs again": [0]},
    "progress": {
        "waits": {
            "state": "PENDING",
            "progress": {"pending": True, "current": 0, "total": 100, "percent": 0},
            **QUEUED,
        },
        "runs": [
            {"state": "PROGRESS", "progress": {"current": 1, "percent": 50.0, **STEP}, **QUEUED},
            {"state": "PROGRESS", "progress": {"current": 2, "percent": 100.0, **STEP}, **QUEUED},
        ],
        "ended": {
            "state": "SUCCESS",
            "complete": True,
            "success": True,
            "progress": ENDED,
            "result": "done",
        },
        "retry": {
            "state": "RETRY",
            "result": {
                "next_retry_seconds": 600,
                "message": "pgqueue.compat.celery.exceptions.Retry: Retry in 6...",
            },
            **FAILED,
        },
        "failed": {"state": "FAILURE", "result": "boom", **FAILED},
        "revoked": {"state": "REVOKED", "result": "Task revoked", **FAILED},
    },
    "results": {
        "result": 3,
        "rows": 0,
        "an old row": "SUCCESS",
        "managers": True,
        "utils": True,
        "views": "UnsupportedImport",
        "backends.database": "UnsupportedImport",
    },
    "sentry": {
        "headers": [True, True, False],
        "errors": [["boom", "pgqueue", "boom"]],
        "spans": [["queue.submit.celery", "boom"], ["queue.submit.celery", "fine"]],
        "transactions": ["web"],
    },
    "opentelemetry": {
        "spans": [
            ["apply_async/boom", "web", "UNSET"],
            ["apply_async/fine", "web", "UNSET"],
            ["apply_async/retried", "web", "UNSET"],
            ["web", None, "UNSET"],
            ["run/boom", "apply_async/boom", "ERROR"],
            ["run/fine", "apply_async/fine", "UNSET"],
            ["run/retried", "apply_async/retried", "UNSET"],
            ["run/retried", "apply_async/retried", "ERROR"],
        ],
        "traces": 1,
    },
}


@pytest.mark.celery
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("package", EXPECTED)
def test_a_package_does_what_the_guide_says(package: str) -> None:
    python = programs.python_of(CELERY, target="test-celery")
    own = connections["default"].settings_dict
    database = {name: own[name] for name in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")}

    with redis() as url:
        done = subprocess.run(
            [python, "look.py", package],
            cwd=HERE / "others",
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "settings",
                "PYTHONPATH": str(HERE.parents[2]),
                "SITE_DATABASE": json.dumps(database),
                "SITE_REDIS": url,
            },
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert done.returncode == 0, done.stderr[-5000:]
    assert json.loads(done.stdout) == EXPECTED[package]
