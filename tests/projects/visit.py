"""Migrate the project's database, open all pages, have everything run; print what went wrong.

python -m tests.projects.visit, with the project's DJANGO_SETTINGS_MODULE
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO
from tempfile import NamedTemporaryFile
from typing import Any

import django
from django.apps import apps
from django.core.management import call_command
from django.db import connections, transaction

PATIENCE = 60  # seconds
CONFIGURATION = {"channel", "policy", "schedule", "subscription", "webhook", "group", "tally"}
"""What projects move by dumpdata, and the figures."""
problems: dict[str, str] = {}


@contextmanager
def trying(what: str) -> Iterator[None]:
    """Note the error of a block, and go on with the next one."""
    try:
        yield
    except Exception as error:
        trace = "".join(traceback.format_exception(error)[-4:])
        problems[what] = f"{type(error).__name__}: {error}"[:500] + f"\n{trace}"


def check() -> None:
    """Migrate, and run Django's checks, also on the databases."""
    call_command("migrate", verbosity=0)
    for alias in list(connections)[1:]:
        call_command("migrate", verbosity=0, database=alias)
    said = StringIO()
    call_command("check", databases=list(connections), fail_level="WARNING", stdout=said)
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def open_admin() -> None:
    """Open each page of the admin, and post each form; nothing of that is kept."""
    from django.test.utils import setup_test_environment

    from tests.admin import test_matrix as matrix

    setup_test_environment()
    with transaction.atomic(using=queue()):
        stage = matrix.Stage()
        for row in matrix.ROWS:
            with trying(f"admin: {row.name}"), transaction.atomic(using=queue()):
                answered = matrix.is_let_in(stage.root, row, stage)
                # Whether a form has changed anything is what the matrix itself looks at.
                assert row.data is not None or answered == bool(row.needs)
                transaction.set_rollback(True, using=queue())
        transaction.set_rollback(True, using=queue())


def work() -> None:
    """Have messages, events and schedules run by a worker."""
    from django.contrib.contenttypes.models import ContentType
    from django.utils import timezone

    from pgqueue import chain, publish, read, send
    from pgqueue.events.consuming import GroupReader
    from pgqueue.models import History, Message, Schedule
    from tests.projects import tasks

    row = ContentType.objects.create(app_label="given", model="given")
    now = timezone.now()
    asked: dict[Any, Any] = {
        tasks.add.enqueue(1, 2): 3,
        tasks.add.using(run_after=timedelta(seconds=0.2)).enqueue(2, 2): 4,
        tasks.add.using(run_after=now, expires_at=now + timedelta(hours=1)).enqueue(3, 2): 5,
        tasks.add_async.enqueue(2, 3): 5,
        tasks.keep.enqueue("one"): None,
        tasks.follow.enqueue(1): 1,
        tasks.waver.enqueue(now): f"wavered at {now.isoformat()}",
        tasks.named.enqueue(row): "given",
        tasks.weigh.enqueue(tasks.Parcel(now, 2.5)): 2.5,
        chain(tasks.add.call(1, 1), tasks.add.call(5)).enqueue(): 7,
        **dict.fromkeys(tasks.add.enqueue_many([(1, 1)] * 3), 2),
    }
    failing = tasks.fail.enqueue()
    send("raw", {"raw": 1})
    publish("row.kept", {"name": "two"})
    reader = GroupReader(tasks.read_row)
    command = [sys.executable, "-m", "django", "runworker", "--threads", "2", "--async", "2"]
    with NamedTemporaryFile("w+") as log:
        worker = subprocess.Popen(command, stderr=log)
        reader.start()
        try:
            for result, expected in asked.items():
                with trying(f"task: {result.task.name} -> {expected}"):
                    result.wait(PATIENCE)
                    assert result.return_value == expected, result.return_value
                    assert result.finished_at >= result.started_at >= result.enqueued_at
                    assert timezone.is_aware(result.enqueued_at) == timezone.is_aware(now)
                    again = result.task.get_result(result.id)
                    if result.task is not tasks.add:
                        assert list(again.args) == list(result.args), again.args
            with trying("task: fail"):
                assert failing.wait(PATIENCE).errors[-1].message == "as it should"
            with trying("raw message"):
                assert Message.objects.get(channel="raw").state == "ready"
            named = "tests.projects.tasks."
            ended = History.objects.using(queue())
            with trying("subscription"):
                until(lambda: ended.filter(task=f"{named}kept").count() == 2)
            with trying("schedule"):
                until(lambda: ended.filter(task=f"{named}tick").count() > 1)
                assert Schedule.objects.using(queue()).get(name=f"{named}tick").error == ""
            with trying("group"):
                until(lambda: ContentType.objects.filter(app_label="read").count() == 2)
            assert [each.payload["name"] for each in read(topics="row.*")].count("one") == 1
        finally:
            reader.stop()
            reader.join(PATIENCE)
            worker.send_signal(signal.SIGTERM)
            status = worker.wait(PATIENCE)
            log.seek(0)
            said = log.read()
        with trying("worker"):
            assert status == 0, status
            # Once for the task that fails once, and once for the one that always does.
            assert said.count("Traceback") == 2, said


def until(is_so: Callable[[], bool]) -> None:
    """Wait for something."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.02)


def open_own() -> None:
    """Open the pages that a project adds by itself."""
    from asgiref.sync import async_to_sync
    from django.test import AsyncClient, Client

    from pgqueue.models import History
    from tests.inbox.test_signatures import signed
    from tests.projects.tasks import SECRET

    with trying("metrics"):
        answer = Client().get("/metrics/", headers={"Authorization": "Bearer a token of the tests"})
        assert answer.status_code == 200 and b"pgqueue_messages" in answer.content, answer.content
    ended = History.objects.using(queue()).latest("pk").pk
    for path, expected in {"/events/": b"retry: ", f"/messages/{ended}/": b"event: ended"}.items():
        with trying(f"stream {path}"):
            assert expected in async_to_sync(streamed)(AsyncClient(), path)
    body = json.dumps({"type": "paid"}).encode()
    for number in (1, 1):
        with trying("webhook that comes in"):
            headers = signed(body, secret=SECRET, id=f"m-{number}", at=datetime.now(UTC))
            answer = Client().post("/hook/", body, content_type="application/json", headers=headers)
            assert answer.status_code == 204, answer.content


async def streamed(client: Any, path: str) -> bytes:
    """Return the beginning of a stream."""
    answer = await client.get(path)
    assert answer.status_code == 200, answer
    begun = b""
    async for block in answer.streaming_content:
        begun += block
        if len(begun.split(b"\n\n")) > (2 if "messages" in path else 1):
            break
    await answer.streaming_content.aclose()
    return begun


def move() -> None:
    """Dump the queue's rows, load them into emptied tables, and compare."""
    from pgqueue import Channel, models, webhooks
    from pgqueue.events import subscriptions

    Channel("mail").policy(max_running=1)
    Channel("mail").configure(watched=True)
    models.Schedule.objects.using(queue()).create(name="nightly", task="a.b", cron="0 3 * * *")
    subscriptions.create("mine", channel="mail", topics="a.*", expires_after=3600)
    webhooks.create("theirs", url="https://example.com/", topics="a.*")
    tables = [each._meta.db_table for each in apps.get_app_config("pgqueue").get_models()]
    with NamedTemporaryFile("w+", suffix=".json") as file:
        before = dumped(file.name)
        with connections[queue()].cursor() as cursor:
            there = set(connections[queue()].introspection.table_names(cursor))
            cursor.execute(f"TRUNCATE {', '.join(each for each in tables if each in there)}")
        call_command("loaddata", file.name, database=queue(), verbosity=0)
        after = dumped(file.name)
    for model in CONFIGURATION:
        with trying(f"loaddata: {model}"):
            assert after[model] == before[model], f"{before[model]} became {after[model]}"


def dumped(path: str) -> dict[str, set[str]]:
    """Write the queue's rows to a file; return them by their models."""
    call_command("dumpdata", "pgqueue", output=path, database=queue(), verbosity=0)
    found: dict[str, set[str]] = {}
    with open(path) as file:
        # Fixtures have milliseconds: what is read of ".000Z" is written as "Z".
        for row in json.loads(file.read().replace(".000Z", "Z")):
            found.setdefault(row["model"].removeprefix("pgqueue."), set()).add(json.dumps(row))
    return found


def queue() -> str:
    from pgqueue.conf import settings

    return settings().database


def main() -> None:
    """Visit all."""
    parts = [check, work, open_own, open_admin, move]
    if not apps.is_installed("django.contrib.admin"):
        parts.remove(open_admin)
    for part in parts:
        with trying(part.__name__):
            part()
    print(json.dumps(problems))


if __name__ == "__main__":
    django.setup()
    main()
