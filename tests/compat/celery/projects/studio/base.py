import uuid

from celery._state import get_current_task
from celery.app.task import Task


class Tracker:
    def __init__(self, update):
        self.update = update

    def track(self, progress):
        self.update(state="PROGRESS", meta={"progress": progress})


class StudioTask(Task):
    """Is enqueued with a signature, and can be found by it."""

    def apply_async(self, args=None, kwargs=None, task_id=None, producer=None, link=None,
                    link_error=None, shadow=None, **options):  # fmt: skip
        task_id = task_id or uuid.uuid4().hex
        return super().apply_async(args=args, kwargs=kwargs, task_id=task_id, producer=producer,
                                   link=link, link_error=link_error, shadow=shadow,
                                   **options)  # fmt: skip

    def enqueue(self, user, **kwargs):
        return self.apply_async(kwargs=kwargs, signature=f"{self.name}:{user}")

    def progress_of(self):
        return Tracker(self.update_state) if get_current_task() is not None else None

    def fetch(self, task_id):
        return self.AsyncResult(task_id)
