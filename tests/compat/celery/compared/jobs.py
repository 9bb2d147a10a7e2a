"""The tasks of the compared project. What they see and do is noted in a file, a line each."""

import json
import os
import re

from celery import Celery, Task, chain, chord, group, signals
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

app = Celery("compared")
app.config_from_object("django.conf:settings", namespace="CELERY")

IN_BRACKETS = re.compile(r"\[(\d+|[0-9a-f-]{36})\]")
ID = re.compile(r"\d+|[0-9a-f]{8}-[0-9a-f-]{27}")
DEPENDENCY = re.compile(r"Dependency \S+ raised")


def note(tag, what, *more):
    """Append a line: all processes of the workers do, each line in one write."""
    line = json.dumps([tag, what, *map(plain, more)], default=repr) + "\n"
    file = os.open(os.environ["SITE_NOTES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, line.encode())
    finally:
        os.close(file)


def plain(value):
    """Return a value without ids that nobody gave, and errors by their names and texts."""
    if isinstance(value, BaseException):
        text = IN_BRACKETS.sub("[an id]", DEPENDENCY.sub("Dependency _ raised", str(value)))
        return f"{type(value).__name__}: {text}"
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, str) and ID.fullmatch(value):
        return "an id"
    return value


def known(task_id):
    """Return a task_id that the caller gave; None: another one."""
    return task_id if str(task_id).startswith("job-") else None


class Told(Task):
    """Handlers that note what they are told."""

    abstract = True

    def on_success(self, retval, task_id, args, kwargs):
        note(kwargs.get("tag"), "on_success", self.name, retval, list(args), known(task_id))

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        note(kwargs.get("tag"), "on_failure", self.name, exc, list(args), known(task_id))

    def on_retry(self, exc, task_id, args, kwargs, einfo):
        note(kwargs.get("tag"), "on_retry", self.name, exc, list(args), known(task_id))

    def after_return(self, status, retval, task_id, args, kwargs, einfo):
        note(kwargs.get("tag"), "after_return", self.name, status, retval, known(task_id))


def ran(task, kwargs):
    request = task.request
    note(kwargs.get("tag"), "ran", task.name, list(request.args), request.retries,
         known(request.id))  # fmt: skip


@signals.task_prerun.connect
def on_prerun(sender=None, task_id=None, task=None, args=None, kwargs=None, **more):
    note(kwargs.get("tag"), "prerun", task.name, list(args))


@signals.task_failure.connect
def on_task_failure(sender=None, exception=None, args=None, kwargs=None, **more):
    note(kwargs.get("tag"), "failure", sender.name, exception, list(args))


@signals.task_retry.connect
def on_task_retry(sender=None, request=None, **more):
    note(request.kwargs.get("tag"), "retry", sender.name, list(request.args))


@signals.task_success.connect
def on_task_success(sender=None, result=None, **more):
    note(sender.request.kwargs.get("tag"), "success", sender.name, result)


@app.task(bind=True, base=Told)
def add(self, *numbers, **kwargs):
    ran(self, kwargs)
    return sum(numbers)


@app.task(bind=True, base=Told)
def total(self, numbers=None, **kwargs):
    ran(self, kwargs)
    return sum(flat(numbers))


def flat(value):
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from flat(each)
    elif isinstance(value, int):
        yield value


@app.task(bind=True, base=Told)
def fail(self, *args, error="ValueError", **kwargs):
    ran(self, kwargs)
    raise ERRORS[error]


@app.task(bind=True, base=Told, throws=(KeyError, ValueError))
def expected(self, *args, **kwargs):
    ran(self, kwargs)
    raise KeyError("gone")


@app.task(bind=True, base=Told, max_retries=1, default_retry_delay=0)
def hopeless(self, *args, **kwargs):
    ran(self, kwargs)
    try:
        raise ConnectionError("away")
    except ConnectionError as error:
        raise self.retry(exc=error, countdown=0) from error


@app.task(bind=True, base=Told, max_retries=1)
def tired(self, *args, **kwargs):
    ran(self, kwargs)
    raise self.retry(countdown=0)


@app.task(bind=True, base=Told, autoretry_for=(OSError,), max_retries=1, default_retry_delay=0)
def stubborn(self, *args, **kwargs):
    ran(self, kwargs)
    raise TimeoutError("slow")


@app.task(bind=True, base=Told, max_retries=3)
def flaky(self, *args, **kwargs):
    ran(self, kwargs)
    if self.request.retries < 1:
        raise self.retry(exc=ValueError("again"), countdown=0)
    return sum(flat(args))


@app.task(bind=True, base=Told, max_retries=3)
def same(self, *args, **kwargs):
    """Retry with the arguments that the request has."""
    ran(self, kwargs)
    if self.request.retries < 1:
        raise self.retry(args=self.request.args, kwargs=self.request.kwargs, countdown=0)
    return sum(flat(args))


@app.task(bind=True, base=Told)
def ignored(self, *args, **kwargs):
    ran(self, kwargs)
    raise Ignore()


@app.task(bind=True, base=Told)
def rejected(self, *args, **kwargs):
    ran(self, kwargs)
    raise Reject("no", requeue=False)


@app.task(bind=True, base=Told, soft_time_limit=1)
def slow(self, *args, **kwargs):
    import time

    ran(self, kwargs)
    try:
        for _ in range(200):
            time.sleep(0.05)
    except SoftTimeLimitExceeded:
        raise RuntimeError("too late") from None


@app.task(bind=True, base=Told, ignore_result=True)
def quiet(self, *args, **kwargs):
    ran(self, kwargs)
    return sum(flat(args))


@app.task(bind=True, base=Told, ignore_result=True)
def quiet_fail(self, *args, **kwargs):
    ran(self, kwargs)
    raise ValueError("quiet")


@app.task(bind=True)
def replaced(self, *args, by=None, tag=None, **kwargs):
    from compared.canvases import made

    note(tag, "ran", self.name, list(args))
    return self.replace(made(by, tag))


@app.task
def errback(request, exc, traceback, tag=None):
    note(tag, "errback", request.task, list(request.args or ()), exc, known(request.id))


@app.task
def old_errback(task_id, tag=None):
    note(tag, "old_errback", known(task_id))


@app.task(bind=True)
def bound_errback(self, task_id, tag=None):
    note(tag, "bound_errback", known(task_id))


@app.task
def linked(value, tag=None):
    note(tag, "linked", value)
    return value


class Refused(Exception):
    """An error of the project's own, with two arguments."""

    def __init__(self, code, reason):
        super().__init__(code, reason)
        self.code = code


ERRORS = {
    "ValueError": ValueError("no"),
    "FileNotFoundError": FileNotFoundError("no file"),
    "ConnectionResetError": ConnectionResetError("reset"),
    "OSError": OSError("input"),
    "KeyError": KeyError("key"),
    "Refused": Refused(7, "closed"),
}
CANVASES = {"chain": chain, "group": group, "chord": chord}
