"""A site with Celery's tasks, on Celery and on pgqueue: nothing but its imports is changed.

`site_pages.json` has its pages as Celery made them, on its broker in memory. Celery is installed
only where the peers are measured (`make test-celery`): there the pages are made anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connections

from pgqueue.models import History, Message
from tests import programs

HERE = Path(__file__).parent
PAGES = json.loads((HERE / "site_pages.json").read_text("utf-8"))
CELERY = "CELERY_PYTHON"
"""The environment variable that names a Python with Celery."""
IMPORT = re.compile(r"^(from|import) celery\b", re.M)


def visited(site: Path, queue: str, python: str, database: dict[str, Any], apps: str = "") -> Any:
    """Return the pages of the site."""
    path = [str(site), *([str(HERE.parents[2])] if queue == "pgqueue" else [])]
    done = subprocess.run(
        [python, "visit.py", queue],
        cwd=site,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "proj.settings",
            "PYTHONPATH": os.pathsep.join(path),
            "SITE_DATABASE": json.dumps(database),
            "SITE_APPS": apps,
        },
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A copy of the site, as it is with Celery."""
    return Path(shutil.copytree(HERE / "site", tmp_path / "site"))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_site_shows_the_same_pages_when_its_imports_are_changed(site: Path) -> None:
    changed = 0
    for file in site.glob("*/*.py"):
        text, count = IMPORT.subn(r"\1 pgqueue.compat.celery", file.read_text("utf-8"))
        file.write_text(text, "utf-8")
        changed += count
    own = connections["default"].settings_dict
    database = {name: own[name] for name in ("ENGINE", "NAME", "USER", "PASSWORD", "HOST", "PORT")}

    assert visited(site, "pgqueue", sys.executable, database, apps="pgqueue") == PAGES
    assert changed == 6
    assert History.objects.filter(task="demoapp.tasks.mul", channel="sums").exists()
    # The task that failed, and the rest of its chain.
    assert set(Message.objects.values_list("state", flat=True)) == {"dead"}


@pytest.mark.celery
def test_its_pages_are_those_that_celery_makes(site: Path) -> None:
    python = programs.python_of(CELERY, target="test-celery")
    database = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(site / "db.sqlite"),
        "OPTIONS": {"timeout": 20},
    }

    assert visited(site, "celery", python, database) == PAGES
