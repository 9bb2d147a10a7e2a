"""Scenarios on Celery, with Redis, and on pgqueue: above all where something fails.

They are in `compared/scenarios.py`, as plain data. Each system runs all of them at once, in workers
of its own. Then these have to be equal: the answers of `get()`, the states of all results, and what
tasks, handlers, signals and errbacks were told. `compared/differences.py` lists the differences.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from tests import programs
from tests.compat.celery.compared.differences import NEVER, OTHER, OTHERWISE, UNENDED
from tests.compat.celery.test_site import CELERY
from tests.eventually import eventually

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GUIDE = ROOT / "docs" / "from-celery.md"
THEIRS = ["-m", "celery", "-A", "compared.jobs", "worker", "-c", "4", "-l", "ERROR",
          "--without-gossip", "--without-mingle"]  # fmt: skip
OURS = ["-m", "django", "runworker", "--threads", "4"]


def observed(queue: str, python: str, worker: list[str], notes: Path, **environment: str) -> Any:
    """Return what is seen of all scenarios on one of both."""
    observing = subprocess.Popen(
        [python, "observe.py", python, *worker],
        cwd=HERE / "compared",
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "compared.settings",
            "COMPARED": queue,
            "SITE_NOTES": str(notes),
            **environment,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        said, errors = observing.communicate(timeout=240)
    finally:
        if observing.poll() is None:  # with its workers
            os.killpg(observing.pid, signal.SIGKILL)
    assert observing.returncode == 0, errors[-5000:]
    return json.loads(said)


@contextmanager
def redis() -> Iterator[str]:
    """Run a server of Redis on a free port; yield its URL."""
    program = programs.find("redis-server", package="redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [program, "--port", str(port), "--save", "", "--appendonly", "no"],
        stdout=subprocess.DEVNULL,
    )
    try:
        eventually(lambda: _is_open(port), what="Redis did not start")
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.terminate()
        server.wait(10)


def _is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def on_celery(python: str, into: Path) -> Any:
    with redis() as url:
        return observed(
            "celery", python, THEIRS, into / "celery", SITE_REDIS=url, PYTHONPATH=str(HERE)
        )


def on_pgqueue(into: Path) -> Any:
    own = connections["default"].settings_dict
    database = {name: own[name] for name in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")}
    path = os.pathsep.join((str(HERE), str(ROOT)))
    return observed(
        "pgqueue", sys.executable, OURS, into / "pgqueue",
        SITE_DATABASE=json.dumps(database), PYTHONPATH=path,
    )  # fmt: skip


@pytest.mark.celery
@pytest.mark.timeout(300)
@pytest.mark.django_db(transaction=True)
def test_what_fails_fails_as_on_celery(tmp_path: Path) -> None:
    python = programs.python_of(CELERY, target="test-celery")
    theirs: dict[str, Any] = {}
    other = threading.Thread(target=lambda: theirs.update(on_celery(python, tmp_path)))
    other.start()
    try:
        ours = on_pgqueue(tmp_path)
    finally:
        other.join()
    into = os.environ.get("COMPARED_INTO")
    if into:
        for name, seen in (("celery", theirs), ("pgqueue", ours)):
            Path(into, f"{name}.json").write_text(json.dumps(seen, indent=1), "utf-8")

    assert len(ours) >= 200 and ours.keys() == theirs.keys()
    different = {name for name in ours if ours[name] != theirs[name]}
    assert different == NEVER | OTHER
    for name in NEVER:
        check_it_ends(theirs[name], ours[name], name)


def check_it_ends(theirs: Any, ours: Any, name: str) -> None:
    """Compare what was seen, but for what never ended on Celery and what follows from its end."""
    if theirs["get"] == ["never ends"]:
        assert [each for each in theirs["notes"] if each not in ours["notes"]] == [], name
        theirs["notes"] = ours["notes"]
    if "PENDING" in json.dumps(theirs["states"]):
        theirs["get"] = ours["get"]  # which is told by those that have ended
    assert ours == _had_it_ended(theirs, ours), name


def _had_it_ended(theirs: Any, ours: Any) -> Any:
    """Return what was seen on Celery, but for what never ended there."""
    if theirs == ["never ends"]:
        return ours
    if isinstance(theirs, dict):
        if theirs.get("state") == "PENDING":
            theirs = {**theirs, "state": ours["state"], "result": ours["result"]}
        return {name: _had_it_ended(each, ours.get(name)) for name, each in theirs.items()}
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_had_it_ended(*each) for each in zip(theirs, ours, strict=True)]
    return theirs


def test_the_guide_says_how_many_are_equal() -> None:
    from tests.compat.celery.compared.scenarios import REVOKED, scenarios

    known = {*scenarios(), *REVOKED}

    assert known >= NEVER | OTHER
    guide = GUIDE.read_text("utf-8")
    said = re.search(r"(\d+) of (\d+) scenarios", guide)
    assert said is not None
    assert (int(said[1]), int(said[2])) == (len(known) - len(NEVER | OTHER), len(known))
    for why in (*UNENDED, *OTHERWISE):
        assert why in " ".join(guide.split())
