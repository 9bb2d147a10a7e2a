"""Visit the pages of this site while a worker runs; print them as JSON.

python visit.py celery      its own worker, on a broker in memory
python visit.py pgqueue     `manage.py runworker`, beside it
"""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager

import django

PAGES = ("called", "wrong", "on_commit", "add", "mul", "xsum", "debug", "sent", "signature",
         "fails", "flaky", "hopeless", "error", "forgotten", "noted", "noted_failure", "own_id",
         "applied", "nested")  # fmt: skip
WIDGETS = 12
PATIENCE = 30  # seconds
DEPENDENCY = re.compile(r"Dependency \S+ raised (\w+\(.*?\))")
"""What some of Celery's backends say, and others not, before the error of a chord's member."""


def visit():
    from django.test import Client

    client = Client()
    from demoapp.views import CANVAS

    # All are called first, so that they run side by side.
    started = {name: client.get(f"/start/{name}/") for name in (*PAGES, *CANVAS)}
    pages = {}
    for name, response in started.items():
        if response.status_code == 302:
            response = ended(client, response.url, lambda text: "ready" in text)
        pages[name] = DEPENDENCY.sub(r"\1", response.content.decode())
    said = ended(
        client, "/widgets/", lambda text: text.count(",") == WIDGETS - 1 and "old" not in text
    )
    return {**pages, "widgets": said.content.decode()}


def ended(client, url, has_ended):
    """Load a page again and again until it says what is to be waited for."""
    until = time.monotonic() + PATIENCE
    while not has_ended((response := client.get(url)).content.decode()):
        if time.monotonic() > until:
            raise TimeoutError(f"{url}: {response.content!r}")
        time.sleep(0.01)
    return response


@contextmanager
def celery_worker():
    from celery.contrib.testing.worker import start_worker
    from proj.celery import app

    with start_worker(
        app, pool="threads", concurrency=2, perform_ping_check=False, queues="celery,sums",
        shutdown_timeout=30,
    ):  # fmt: skip
        yield


@contextmanager
def pgqueue_worker():
    command = [sys.executable, "-m", "django", "runworker", "--threads", "2"]
    worker = subprocess.Popen(command, env=os.environ)
    try:
        yield
    finally:
        worker.terminate()
        worker.wait(30)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "proj.settings")
    django.setup()
    from django.core.management import call_command

    if sys.argv[1] == "celery":  # the other's database is migrated
        call_command("migrate", verbosity=0)
    with {"celery": celery_worker, "pgqueue": pgqueue_worker}[sys.argv[1]]():
        found = visit()
    print(json.dumps(found, indent=1))
