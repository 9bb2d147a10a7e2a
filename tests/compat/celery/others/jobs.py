"""Tasks that use other packages."""

import os

from celery import Celery, shared_task
from celery.result import AsyncResult
from celery_once import QueueOnce
from celery_progress.backend import Progress, ProgressRecorder
from celery_singleton import Singleton

REDIS = os.environ["SITE_REDIS"]
SEEN = []

app = Celery("others")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.ONCE = {
    "backend": "celery_once.backends.Redis",
    "settings": {"url": REDIS, "default_timeout": 3600},
}
app.conf.singleton_backend_url = REDIS


@app.task(base=Singleton, name="single")
def single(number):
    SEEN.append(number)
    return number


@app.task(
    base=Singleton, name="strict", raise_on_duplicate=True, unique_on=["number"], lock_expiry=60
)
def strict(number, more=0):
    raise ValueError(number)


@app.task(base=QueueOnce, name="once")
def once(number):
    SEEN.append(number)
    return number


@app.task(base=QueueOnce, name="graceful", once={"graceful": True, "keys": ["a"]})
def graceful(a, b):
    SEEN.append((a, b))


@app.task(base=QueueOnce, name="before", once={"unlock_before_run": True})
def before(number):
    SEEN.append(number)
    if number:
        before.apply_async(args=[number])
        before.once_backend.clear_lock(before.get_key([number]))
        SEEN.append("again")


@shared_task(bind=True, name="progress")
def progress(self, steps):
    recorder = ProgressRecorder(self)
    for step in range(steps):
        recorder.set_progress(step + 1, steps, "copying")
        SEEN.append(Progress(AsyncResult(self.request.id)).get_info())
    return "done"


@shared_task(bind=True, name="retried", max_retries=1)
def retried(self, countdown):
    if not self.request.retries:
        raise self.retry(exc=ValueError("not yet"), countdown=countdown)
    raise ValueError("never")


@shared_task(name="boom")
def boom(number):
    raise ValueError("boom")


@shared_task(name="fine")
def fine(number):
    return number
