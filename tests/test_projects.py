"""Each setting of Django that changes behaviour: all pages open, and everything runs.

`tests/projects` has a project for each, which is visited at night, and two with several settings at
once. A process of its own migrates an empty database and opens the pages of the admin and ours. A
worker and a group run messages and events. Then the configuration is moved by dumpdata and
loaddata. A new setting that changes behaviour gets a project there, and a line in one of the two.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.db import connection
from psycopg.sql import SQL, Identifier

from tests import projects
from tests.processes import database_url
from tests.starting import run

NO_PROJECTS = {"__init__", "base", "routers", "tasks", "urls", "visit"}
NAMES = sorted({each.stem for each in Path(projects.__path__[0]).glob("*.py")} - NO_PROJECTS)
BY_DAY = {"together", "apart", "no_auth"}
"""Between them they have nearly all settings; `no_auth` has neither users nor the admin."""


@pytest.fixture
def databases(request: pytest.FixtureRequest, django_db_setup: None) -> Iterator[str]:
    """The URL of an empty database; another one has its name and `_queue` behind it."""
    own = str(connection.settings_dict["NAME"])
    name = f"{own}_project"
    both = [name, f"{name}_queue"]
    wanted = ("host", "port", "user", "password", "sslmode")
    parameters = connection.get_connection_params()
    server = {key: parameters[key] for key in wanted if key in parameters}
    drop = SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
    with psycopg.connect(**server, dbname="postgres", autocommit=True) as session:
        for each in both:
            session.execute(drop.format(Identifier(each)))
            session.execute(SQL("CREATE DATABASE {}").format(Identifier(each)))
            with psycopg.connect(**server, dbname=each, autocommit=True) as made:
                made.execute("CREATE SCHEMA project; CREATE SCHEMA other")
        yield database_url().removesuffix(own) + name
        for each in both:
            session.execute(drop.format(Identifier(each)))


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.slow if each in BY_DAY else pytest.mark.nightly)
        for each in NAMES
    ],
)
def test_all_pages_open_and_everything_runs(name: str, databases: str) -> None:
    # It starts its worker by an interpreter of its own.
    visit = run(
        ["-m", "tests.projects.visit"],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": f"tests.projects.{name}",
            "DATABASE_URL": databases,
        },
        capture_output=True,
        text=True,
        timeout=280,
    )

    assert visit.returncode == 0, visit.stderr
    problems = json.loads(visit.stdout.splitlines()[-1])
    assert problems == {}, "\n\n".join(f"{what}: {said}" for what, said in problems.items())
