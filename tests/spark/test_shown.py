"""A read that Spark ends early ends quietly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.factories import Connection, ended
from tests.processes import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(200)]


def test_show_and_limit_print_no_traceback(url: str, connection: Connection) -> None:
    ended(connection, 30_000)

    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.shown"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=180,
    )

    assert done.returncode == 0, done.stderr
    assert "only showing top 3 rows" in done.stdout
    assert done.stdout.splitlines()[-2:] == ["7 rows", "20000 rows"]
    assert "Traceback" not in done.stderr, done.stderr
    assert "BrokenPipe" not in done.stderr
