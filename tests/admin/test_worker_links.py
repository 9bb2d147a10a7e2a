"""Workers on pages: by their hosts and pids, not by their ids."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from pgqueue.models import Message, Worker
from tests.admin.acting import MESSAGES
from tests.admin.conftest import Connection, Login
from tests.factories import register, run

WORKERS = "/admin/pgqueue/worker/"


def with_errors(queue: Connection, *workers: UUID) -> int:
    """Return a message with a failed attempt on each worker, which runs on the first one."""
    (held,) = run(queue, worker_id=workers[0])
    errors = [
        {"class": "a.Oops", "message": "no", "attempt": number, "worker": str(worker)}
        for number, worker in enumerate(workers)
    ]
    Message.objects.filter(pk=held.id).update(errors=errors)
    return held.id


def page(client: Client, id: int) -> str:
    return client.get(f"{MESSAGES}{id}/change/").content.decode()


def test_a_message_names_its_workers_by_host_and_pid(queue: Connection, viewer: Client):
    worker = register(queue)
    Worker.objects.filter(pk=worker).update(host="rack-7", pid=42)
    message = with_errors(queue, worker)

    shown = page(viewer, message)

    link = f'<a href="{WORKERS}{worker}/change/">rack-7:42</a>'
    assert shown.count(link) >= 3  # the failed attempt, the last attempt, the field
    assert shown.count(str(worker)) == shown.count(link)


def test_a_worker_that_is_gone_is_shown_by_the_beginning_of_its_id(queue, viewer: Client):
    worker = register(queue)
    message = with_errors(queue, worker)
    Worker.objects.all().delete()

    shown = page(viewer, message)

    assert f"failed on {str(worker)[:8]}…" in shown
    assert f"{WORKERS}{worker}" not in shown


def test_who_may_not_see_workers_sees_no_hosts(queue: Connection, login: Login):
    worker = register(queue)
    Worker.objects.filter(pk=worker).update(host="rack-7", pid=42)
    message = with_errors(queue, worker)

    shown = page(login("view_message"), message)

    assert "rack-7" not in shown
    assert f"{str(worker)[:8]}…" in shown


def test_the_names_of_many_workers_take_one_statement(queue: Connection, viewer: Client):
    workers = [register(queue) for _ in range(9)]
    one, many = with_errors(queue, workers[0]), with_errors(queue, *workers)

    with CaptureQueriesContext(connection) as few:
        page(viewer, one)
    with CaptureQueriesContext(connection) as more:
        page(viewer, many)

    assert len(more) == len(few)


def test_a_driver_is_named_in_the_list_and_on_the_page(queue: Connection, viewer: Client):
    driver, worker = register(queue), register(queue)
    Worker.objects.filter(pk=driver).update(host="driver", pid=1)
    Worker.objects.filter(pk=worker).update(info={"driver": str(driver)})

    for path in (WORKERS, f"{WORKERS}{worker}/change/"):
        answer: Any = viewer.get(path)
        assert f'<a href="{WORKERS}{driver}/change/">driver:1</a>' in answer.content.decode()
