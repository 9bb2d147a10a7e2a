"""The fixtures for pytest, as pytest finds them in the installed package."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

from pgqueue import publish
from tests import jobs


@pytest.mark.django_db
def test_fixtures_have_the_names_of_the_functions(
    run_all: Any,
    immediate: Any,
    assert_enqueued: Any,
    assert_not_enqueued: Any,
    assert_published: Any,
    assert_not_published: Any,
    advance: Any,
) -> None:
    jobs.add.using(run_after=60).enqueue(1)
    assert_enqueued(jobs.add, run_after=60)

    advance(timedelta(minutes=1))
    [ran] = run_all()

    assert ran.return_value == 1
    assert_not_enqueued(jobs.add)
    publish("tried", 1)
    assert_published("tried", payload=1)
    assert_not_published("tried", payload=2)
    with immediate():
        assert jobs.add.enqueue(2).return_value == 2


@pytest.mark.django_db(transaction=True)
def test_they_work_where_a_test_commits(run_all: Any) -> None:
    jobs.leave.enqueue("committed")

    assert len(run_all()) == 1


@pytest.mark.parametrize(
    ("module", "absent"),
    [("pgqueue.testing", "pytest"), ("pgqueue.pytest_plugin", "django")],
)
def test_a_module_is_imported_without(module: str, absent: str) -> None:
    setup = "import django; django.setup()\n" if absent != "django" else ""
    program = (
        "import os, sys\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'testproject.settings'\n"
        f"sys.modules[{absent!r}] = None\n{setup}import {module}\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
