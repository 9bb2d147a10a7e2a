"""A worker runs each message in the tenant of its producer, and leaves the tenant afterwards.

The functions of the project without django-tenants are the ones of docs/guide/tenants.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
import pytest
from django.db import connection
from psycopg.sql import SQL, Identifier

from tests.processes import database_url
from tests.starting import run

PROJECTS = ("with_django_tenants", "with_search_path")
NORTH_AND_SOUTH = ("north", "south")
SHELL = """
from pgqueue import flow, publish, send
from pgqueue.models import History, Message, Schedule
from pgqueue.tasks import scheduling, tenants
from pgqueue.testing import run_all
from tests.tenants.notes.tasks import *

def inside(name):
    return tenants.functions().enter(name)
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.xdist_group("tenants"),
]


@dataclass(frozen=True)
class Project:
    """A project with two tenants, in a database of its own."""

    environment: dict[str, str]
    server: dict[str, Any]

    def manage(self, *arguments: str) -> str:
        """Run a command in a process of its own; return what it prints."""
        done = run(
            ["manage.py", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def shell(self, code: str) -> str:
        return self.manage("shell", "--verbosity=0", "-c", SHELL + code)

    def work(self, *arguments: str) -> str:
        """Have a worker run everything that is ready; one thread keeps one connection."""
        return self.manage("runworker", "--drain", *(arguments or ["--threads=1"]))

    def rows(self, query: LiteralString, tenant: str = "public") -> list[tuple[Any, ...]]:
        with psycopg.connect(**self.server, autocommit=True) as session:
            return session.execute(SQL(query).format(tenant=Identifier(tenant))).fetchall()

    def notes(self, tenant: str) -> list[str]:
        """Return what was written in a tenant; each note says the schema in which it was taken."""
        found = self.rows("SELECT text, schema FROM {tenant}.notes_note ORDER BY id", tenant)
        assert {schema for _, schema in found} <= {tenant}
        return [text for text, _ in found]

    def sessions(self) -> set[int]:
        found = [self.rows("SELECT session FROM {tenant}.notes_note", x) for x in NORTH_AND_SOUTH]
        return {session for rows in found for (session,) in rows}

    def ends(self) -> list[tuple[Any, ...]]:
        """Return the tenant and the outcome of each message that has ended, in their order."""
        return self.rows(
            "SELECT metadata ->> 'tenant', outcome::text FROM pgqueue_history ORDER BY id"
        )

    def errors(self) -> list[str]:
        """Return the last error of each dead letter."""
        found = self.rows("SELECT errors FROM pgqueue_message WHERE state = 'dead' ORDER BY id")
        return [f"{errors[-1]['class']}: {errors[-1]['message']}" for (errors,) in found]


@pytest.fixture(scope="module", params=PROJECTS)
def made(request: pytest.FixtureRequest, django_db_setup: None) -> Iterator[Project]:
    own = str(connection.settings_dict["NAME"])
    name = f"{own}_tenants"
    wanted = ("host", "port", "user", "password", "sslmode")
    parameters = connection.get_connection_params()
    server = {key: parameters[key] for key in wanted if key in parameters}
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": f"tests.tenants.{request.param}",
        "DATABASE_URL": database_url().removesuffix(own) + name,
    }
    drop = SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name))
    with psycopg.connect(**server, dbname="postgres", autocommit=True) as session:
        session.execute(drop)
        session.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        prepared = run(
            ["-m", "tests.tenants.prepare"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert prepared.returncode == 0, prepared.stderr
        yield Project(environment, {**server, "dbname": name})
        session.execute(drop)


@pytest.fixture
def project(made: Project) -> Iterator[Project]:
    yield made
    with psycopg.connect(**made.server, autocommit=True) as session:
        session.execute(
            "TRUNCATE north.notes_note, south.notes_note, pgqueue_message, pgqueue_history, "
            "pgqueue_schedule, pgqueue_tally, pgqueue_tenant_total CASCADE"
        )


def test_each_message_runs_in_its_tenant(project: Project) -> None:
    project.shell(
        "for number in range(10):\n"
        "    for each in ('north', 'south'):\n"
        "        with inside(each):\n"
        "            note.enqueue(f'{each} {number}')"
    )

    project.work()

    for each in NORTH_AND_SOUTH:
        assert project.notes(each) == [f"{each} {number}" for number in range(10)]
    # No connection for each run. A thread without work for a second closes its own.
    assert len(project.sessions()) < 10


def test_a_dedupe_key_of_one_tenant_is_free_in_the_other(project: Project) -> None:
    project.shell(
        "once = note.using(dedupe_key=lambda text: 'digest:7')\n"
        "for each in ('north', 'south'):\n"
        "    with inside(each):\n"
        "        once.enqueue(f'{each} first')\n"
        "        once.enqueue(f'{each} second')"
    )

    project.work()

    for each in NORTH_AND_SOUTH:
        assert project.notes(each) == [f"{each} first"]


def test_threads_and_async_tasks_do_not_mix_their_tenants(project: Project) -> None:
    project.shell(
        "for number in range(20):\n"
        "    for each in ('north', 'south'):\n"
        "        with inside(each):\n"
        "            note.enqueue(f'{each} {number}')\n"
        "            note_async.enqueue_many([(f'async {each} {number}',)])"
    )

    project.work("--threads=4", "--async=4")

    for each in NORTH_AND_SOUTH:
        of_each = [f"{each} {number}" for number in range(20)]
        assert sorted(project.notes(each)) == sorted([*of_each, *(f"async {x}" for x in of_each)])


def test_atomic_and_durable_runs_and_their_children_stay_in_the_tenant(project: Project) -> None:
    project.shell(
        "with inside('north'):\n"
        "    note_atomically.enqueue('a')\n"
        "    note_children.enqueue('b')\n"
        "    note_in_steps.enqueue('c')"
    )

    project.work()

    assert sorted(project.notes("north")) == [
        *("a", "a on commit", "b of north", "b's child", "c in a step")
    ]
    assert project.notes("south") == []
    assert project.ends() == [("north", "succeeded")] * 4


@pytest.mark.parametrize(
    "fault", ["fail", "break_transaction", "leave_transaction_open", "overrun"]
)
def test_a_failure_in_one_tenant_leaves_the_next_run_in_its_own(
    project: Project, fault: str
) -> None:
    project.shell(
        f"with inside('north'):\n    {fault}.enqueue('x')\n"
        "with inside('south'):\n    note.enqueue('y')\n"
        "note.enqueue('nowhere')"
    )

    project.work()

    assert project.notes("south") == ["y"]
    assert "nowhere" not in project.notes("north")
    assert [each.partition(":")[0] for each in project.errors()][1:] == [
        "django.db.utils.ProgrammingError"
    ]


def test_a_message_whose_tenant_is_gone_fails_and_says_so(project: Project) -> None:
    project.shell("note.using(metadata={'tenant': 'west'}).enqueue('x')")

    project.work()

    [error] = project.errors()
    assert error.startswith(
        "pgqueue.exceptions.TenantUnavailable: The tenant 'west' cannot be entered: "
    )


def test_a_schedule_for_each_tenant_has_one_message_for_each_at_each_tick(
    project: Project,
) -> None:
    project.manage("pgqueue_maintain")
    due = "UPDATE pgqueue_schedule SET next_at = now() - interval '1 second' RETURNING name"
    assert project.rows(due) == [("hourly",)]

    project.manage("pgqueue_maintain")
    project.manage("pgqueue_maintain")
    project.work()

    assert (project.notes("north"), project.notes("south")) == (["hourly"], ["hourly"])


def test_a_subscription_runs_in_the_tenant_of_the_publisher(project: Project) -> None:
    project.manage("pgqueue_maintain")  # declares the subscription
    project.shell("with inside('south'):\n    publish('noted', 'x')")

    project.manage("pgqueue_maintain")
    project.work()

    assert project.notes("south") == ["x by a subscription"]


def test_a_rerun_keeps_its_tenant(project: Project) -> None:
    project.shell("with inside('north'):\n    note.enqueue('x')")
    project.work()

    project.shell("note.get_result(History.objects.get().pk).rerun()")
    project.work()

    assert project.notes("north") == ["x", "x"]


def test_a_rerun_of_a_flow_reads_the_rows_of_its_tenant(project: Project) -> None:
    project.shell(
        "with inside('north'):\n"
        "    Note.take('x')\n"
        "    with flow('notes') as f:\n"
        "        f.enqueue(note_again, Note.objects.get(), f.enqueue(count))"
    )
    project.work()

    project.manage("pgqueue_rerun", "--task", "tests.tenants.notes.tasks.note_again")
    project.work()

    assert project.notes("north") == ["x", "x again", "x again"]


def test_metrics_tell_the_messages_and_runs_of_each_tenant(project: Project) -> None:
    project.shell(
        "with inside('north'):\n"
        "    note.enqueue_many([('x',), ('y',)])\n"
        "with inside('south'):\n"
        "    note.using(run_after=3600).enqueue('z')"
    )
    project.work()
    project.manage("pgqueue_maintain")

    said = project.shell(
        "from pgqueue.metrics.exposition import of_the_queue\n"
        "print(of_the_queue('default', accept='')[0].decode())"
    )

    assert 'pgqueue_tenant_messages{state="scheduled",tenant="south"} 1.0' in said
    assert 'pgqueue_tenant_runs_total{outcome="succeeded",tenant="north"} 2.0' in said


def test_run_all_runs_each_message_in_its_tenant(project: Project) -> None:
    said = project.shell(
        "with inside('north'):\n"
        "    note.enqueue('x')\n"
        "with inside('south'):\n"
        "    note.enqueue('y')\n"
        "    print([str(each.status) for each in run_all()])"
    )

    assert said.count("succeeded") == 2
    assert (project.notes("north"), project.notes("south")) == (["x"], ["y"])


@pytest.mark.parametrize("around", ["if True", "with transaction.atomic()"])
def test_run_all_leaves_the_tenant_after_each_run_and_each_event(
    project: Project, around: str
) -> None:
    project.manage("pgqueue_maintain")  # declares the subscription
    said = project.shell(
        "from django.db import connection, transaction\n"
        f"{around}:\n"
        "    note.using(metadata={'tenant': 'north'}).enqueue('x')\n"
        "    note.enqueue('y')\n"
        "    publish('noted', 'x', metadata={'tenant': 'north'})\n"
        "    run_all()\n"
        "    with connection.cursor() as cursor:\n"
        "        cursor.execute('SELECT current_schema()')\n"
        "        print('It is in', *cursor.fetchone())"
    )

    assert "It is in public" in said
    assert set(project.notes("north")) == {"x", "x by a subscription", "x by a group"}
