"""Small projects of the shapes that real ones have: they start and do the same on Celery and here.

For pgqueue nothing in them is changed but by `manage.py pgqueue_from_celery --fix`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections

from tests import programs
from tests.compat.celery.test_compared import redis
from tests.compat.celery.test_site import CELERY

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROJECTS = ("forum", "findings", "store", "studio", "chat")
THEIRS = ["-c", "2", "-l", "ERROR", "--without-gossip", "--without-mingle", "-Q", "celery,webhooks"]
DONE: dict[str, Any] = {
    "forum": ["Request: forum.celery.debug", 3, [["ann", 7], ["bob", 7]],
              "LookupError('nobody')", "FAILURE"],
    "findings": [[1, 2, "admin"], [[0, None, "admin"], [1, None, "admin"]], 30, 100, 30,
                 "ValueError('finding 3')", "FAILURE", 10, 10, True],
    "store": [[10, "PLN", False, False], [7, "EUR", False, False], [3, 2], "given up",
              "store.capture", [3, "EUR", False, False], [[False, 10.0], True, True]],
    "studio": [{"channel": "c1", "version": 1, "active": True}, "SUCCESS", ["c2", "bob"],
               "FileNotFoundError('/none')", None, 32, True],
    "chat": [["HELLO", "red", "chat.tasks.answer", True], "SUCCESS", 6, True, 2,
             " ConnectionResetError('embedding')\")", "FAILURE", ["SUCCESS", "FAILURE"]],
}  # fmt: skip
"""What each project tells, on both."""


@pytest.fixture
def projects(tmp_path: Path) -> Path:
    """A copy of the projects, as they are with Celery."""
    return Path(shutil.copytree(HERE / "projects", tmp_path / "projects"))


def played(projects: Path, project: str, python: str, worker: list[str], **environment: str) -> Any:
    """Return what a project tells."""
    done = subprocess.run(
        [python, "drive.py", project, python, *worker],
        cwd=projects,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"{project}.settings",
            "PYTHONPATH": str(projects),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("project", PROJECTS)
@pytest.mark.django_db(transaction=True)
def test_a_project_does_the_same_once_its_imports_are_rewritten(
    projects: Path, project: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(projects)
        call_command("pgqueue_from_celery", project, "--fix")
    own = connections["default"].settings_dict
    database = {name: own[name] for name in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")}

    told = played(
        projects, project, sys.executable, ["-m", "django", "runworker", "--threads", "2"],
        SITE_DATABASE=json.dumps(database), SITE_APPS="pgqueue",
        PYTHONPATH=os.pathsep.join((str(projects), str(ROOT))),
    )  # fmt: skip
    assert told == DONE[project]


@pytest.mark.celery
@pytest.mark.parametrize("project", PROJECTS)
def test_it_does_so_with_celery(projects: Path, project: str) -> None:
    python = programs.python_of(CELERY, target="test-celery")
    app = "celeryconf" if project == "store" else "celery"

    with redis() as url:
        worker = ["-m", "celery", "-A", f"{project}.{app}", "worker", *THEIRS]
        told = played(projects, project, python, worker, SITE_REDIS=url)
    assert told == DONE[project]
