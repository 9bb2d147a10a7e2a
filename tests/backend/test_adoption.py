"""A project on django.tasks moves to pgqueue by a setting: processes, HTTP, and no other change."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from subprocess import DEVNULL
from typing import Any
from urllib.request import Request, urlopen

import django
import psycopg
import pytest
from django.db import connections
from psycopg.sql import SQL, Identifier

from tests.eventually import eventually
from tests.processes import database_url
from tests.starting import Popen, run
from tests.system import free_port

pytestmark = pytest.mark.django_db(transaction=True)

TASKS = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
IMMEDIATE = {"QUEUE_BACKEND": f"{TASKS}.backends.immediate.ImmediateBackend"}
TASKS_DB = {"QUEUE_APPS": "django_tasks_db", "QUEUE_BACKEND": "django_tasks_db.DatabaseBackend"}
PGQUEUE = {"QUEUE_APPS": "pgqueue", "QUEUE_BACKEND": "pgqueue.backend.PostgresBackend"}


@pytest.mark.slow
def test_it_gives_the_same_results() -> None:
    at_once = results(IMMEDIATE)
    theirs = results(TASKS_DB, worker=["db_worker", "--queue-name", "*", "--interval", "0.1"])
    ours = results(PGQUEUE, worker=["runworker"])

    assert ours == theirs == at_once
    assert [each["status"] for each in ours] == ["SUCCESSFUL"] * 3 + ["FAILED", "SUCCESSFUL"]
    assert ours[0]["value"] == {"total": 5, "prices": [1, 2, 3]}
    assert ours[3]["errors"] == ["builtins.LookupError"]


def results(settings: dict[str, str], *, worker: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Order once, in a project with these settings, and return the page of each task."""
    with ExitStack() as stack:
        url = stack.enter_context(empty_database())
        environment = {
            **os.environ,
            **settings,
            "DATABASE_URL": url,
            "DJANGO_SETTINGS_MODULE": "tests.backend.project.settings",
        }
        manage = ["-m", "django"]
        run([*manage, "migrate", "-v0"], env=environment, check=True)
        port = free_port()
        site = f"http://127.0.0.1:{port}"
        stack.enter_context(process([*manage, "runserver", "--noreload", str(port)], environment))
        eventually(lambda: is_up(port), within=20, what="the site is not up")
        ordered = fetch(f"{site}/order/", method="POST")
        if not worker:
            return list(ordered["pages"])
        stack.enter_context(process([*manage, *worker], environment))

        def pages() -> list[dict[str, Any]]:
            found = [fetch(f"{site}/result/{id}/") for id in ordered["ids"]]
            return found if all(page["is_finished"] for page in found) else []

        return eventually(pages, within=20)


@contextmanager
def empty_database() -> Iterator[str]:
    """A database of its own on the tests' server; its URL."""
    settings = connections["default"].settings_dict
    name = settings["NAME"] + "_adoption"
    parameters = {**connections["default"].get_connection_params(), "dbname": "postgres"}
    wanted = ("host", "port", "user", "password", "dbname", "sslmode")
    found = {key: parameters[key] for key in wanted if key in parameters}
    with psycopg.connect(**found, autocommit=True) as server:
        drop = SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(Identifier(name))
        server.execute(drop)
        server.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
        try:
            yield database_url().removesuffix(settings["NAME"]) + name
        finally:
            server.execute(drop)


@contextmanager
def process(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """Have it run while this lasts."""
    running = Popen(command, env=environment, stdout=DEVNULL, stderr=DEVNULL)
    try:
        yield
    finally:
        running.kill()
        running.wait()


def is_up(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fetch(url: str, *, method: str = "GET") -> Any:
    with urlopen(Request(url, method=method), timeout=10) as answer:  # noqa: S310
        return json.load(answer)
