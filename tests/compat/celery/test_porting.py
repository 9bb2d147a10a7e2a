"""`manage.py pgqueue_from_celery` reads a project's source."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from pgqueue.compat.celery import porting

TASKS = """\
import celery
import celery.schedules
import celery.utils.log as logs
from celery import Celery, shared_task
from celery.bootsteps import Step
from celery.signals import beat_init, setup_logging, task_prerun
from kombu import Queue

from .celery import app


@shared_task(bind=True, max_retries=3, acks_late=True, pydantic=True, colour="red")
def fetch(self, url):
    raise self.retry(countdown=5, queue="other")


def call():
    fetch.apply_async(("x",), countdown=3, routing_key="a", retry=False, user_id=7)
    app.control.revoke("1")
    app.control.autoscale(1, 2)
    app.conf.update(task_time_limit=3)


class Own(celery.Task):
    def apply_async(self, args=None, kwargs=None, producer=None, **options):
        return super().apply_async(args, kwargs, producer=producer, **options)
"""
SETTINGS = """\
CELERY_BROKER_URL = "redis://"
CELERY_TASK_TIME_LIMIT = 30
CELERY_BEAT_SCHEDULER = "django_celery_beat.schedulers:DatabaseScheduler"
CELERY_HEARTBEAT_URL = "https://example.com"
INSTALLED_APPS = ["django_celery_results"]
OTHER = 1
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with Celery."""
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "tasks.py").write_text(TASKS, "utf-8")
    (tmp_path / "shop" / "settings.py").write_text(SETTINGS, "utf-8")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "hidden.py").write_text("import celery.bootsteps", "utf-8")
    return tmp_path


def told(*arguments: Any) -> tuple[str, Any]:
    """Run the command; return its output, and its status."""
    out = StringIO()
    try:
        call_command("pgqueue_from_celery", *map(str, arguments), stdout=out)
    except SystemExit as ended:
        return out.getvalue(), ended.code
    return out.getvalue(), 0


def test_each_use_of_celery_is_told_with_its_place(project: Path) -> None:
    out, status = told("--all", "--format", "json", project)

    found = {
        (Path(each["path"]).name, each["line"], each["what"]): each["word"]
        for each in json.loads(out)["found"]
    }
    assert status == 1
    assert found == {
        ("tasks.py", 1, "import celery"): "taken over",
        ("tasks.py", 2, "import celery.schedules"): "taken over",
        ("tasks.py", 3, "import celery.utils.log"): "taken over",
        ("tasks.py", 4, "from celery import Celery"): "taken over",
        ("tasks.py", 4, "from celery import shared_task"): "taken over",
        ("tasks.py", 5, "from celery.bootsteps import Step"): "refused",
        ("tasks.py", 6, "from celery.signals import beat_init"): "refused",
        ("tasks.py", 6, "from celery.signals import setup_logging"): "differs",
        ("tasks.py", 6, "from celery.signals import task_prerun"): "taken over",
        ("tasks.py", 7, "import kombu"): "differs",
        ("tasks.py", 12, "@shared_task(bind=…)"): "taken over",
        ("tasks.py", 12, "@shared_task(max_retries=…)"): "taken over",
        ("tasks.py", 12, "@shared_task(acks_late=…)"): "differs",
        ("tasks.py", 12, "@shared_task(pydantic=…)"): "refused",
        ("tasks.py", 14, "retry(queue=…)"): "refused",
        ("tasks.py", 18, "apply_async(countdown=…)"): "taken over",
        ("tasks.py", 18, "apply_async(routing_key=…)"): "refused",
        ("tasks.py", 18, "apply_async(retry=…)"): "differs",
        ("tasks.py", 18, "apply_async(user_id=…)"): "differs",
        ("tasks.py", 19, "control.revoke()"): "taken over",
        ("tasks.py", 20, "control.autoscale()"): "refused",
        ("tasks.py", 21, "task_time_limit"): "taken over",
        ("settings.py", 1, "CELERY_BROKER_URL"): "differs",
        ("settings.py", 2, "CELERY_TASK_TIME_LIMIT"): "taken over",
        ("settings.py", 3, "CELERY_BEAT_SCHEDULER"): "refused",
        ("settings.py", 4, "CELERY_HEARTBEAT_URL"): "differs",
        ("settings.py", 5, "'django_celery_results'"): "refused",
    }


def test_lines_say_what_to_do(project: Path) -> None:
    out, _ = told(project)

    assert (
        f"{project}/shop/tasks.py:5: refused: from celery.bootsteps import Step: the worker" in out
    )
    assert "settings.py:3: refused: CELERY_BEAT_SCHEDULER: move its schedules by `manage.py" in out
    assert "taken over:" not in out
    assert out.endswith("12 taken over, 7 differs, 8 refused.\n")


@pytest.mark.parametrize("encoding", ["latin-1", "utf-8-sig", "utf-8"])
def test_a_rewritten_file_keeps_its_encoding_and_its_ends_of_lines(
    tmp_path: Path, encoding: str
) -> None:
    cookie = "# -*- coding: latin-1 -*-" if encoding == "latin-1" else "#"
    before = f'{cookie}\r\nTOWN = "Köln"\r\n\x0c\r\nfrom celery import shared_task\r\nEND = 1\n'
    file = tmp_path / "tasks.py"
    file.write_bytes(before.encode(encoding))

    told("--fix", tmp_path)

    after = before.replace("from celery", "from pgqueue.compat.celery")
    assert file.read_bytes().decode(encoding) == after


def test_imports_of_what_is_taken_over_are_rewritten(project: Path) -> None:
    out, _ = told("--fix", project)
    lines = (project / "shop" / "tasks.py").read_text("utf-8").splitlines()

    assert "Imports were rewritten in 1 files." in out
    assert lines[:9] == [
        "import pgqueue.compat.celery as celery",
        "import pgqueue.compat.celery.schedules; from pgqueue.compat import celery",
        "import pgqueue.compat.celery.utils.log as logs",
        "from pgqueue.compat.celery import Celery, shared_task",
        "from celery.bootsteps import Step",
        "from celery.signals import beat_init, setup_logging, task_prerun",
        "from kombu import Queue",
        "",
        "from .celery import app",
    ]
    again, _ = told("--fix", project)
    assert "Imports were rewritten in 0 files." in again


def test_what_can_not_be_read_is_said_and_left(project: Path, capsys: Any) -> None:
    (project / "broken.py").write_text("def (", "utf-8")

    out, _ = told(project)
    assert "broken.py: reading failed" in capsys.readouterr().err
    assert "refused" in out
    with pytest.raises(CommandError, match="no file or folder"):
        told(project / "nowhere")


def test_a_name_that_celery_has_not_is_told() -> None:
    assert porting.becomes_of("schedules", "nothing")[0] == "refused"
    assert porting.becomes_of("", "shared_task") == ("taken over", "")
