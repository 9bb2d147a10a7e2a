"""Where OpenTelemetry is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
sys.modules["opentelemetry"] = None
import django
django.setup()
import pgqueue.worker.worker, pgqueue.webhooks.delivering, pgqueue.events.consuming, pgqueue.logs
assert not any(name.startswith(("opentelemetry.", "sentry_sdk")) for name in sys.modules)
import pgqueue.telemetry
"""


def test_all_else_can_be_imported_and_the_error_names_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "tests.worker_settings"},
        capture_output=True,
        text=True,
        timeout=60,
    )

    last = done.stderr.splitlines()[-1]
    assert last == (
        "ImportError: pgqueue.telemetry needs opentelemetry-api: "
        "pip install 'pgqueue[opentelemetry]'."
    )
