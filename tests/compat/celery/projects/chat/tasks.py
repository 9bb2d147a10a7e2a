from celery import current_task, shared_task
from celery.app.task import Context
from celery.exceptions import Ignore
from celery.utils.log import get_task_logger

from chat.celery import TEAM

logger = get_task_logger("chat.documents")


class Recorder:
    """Reports how far a task has come."""

    def __init__(self, task):
        self.task = task

    def set_progress(self, current, total):
        self.task.update_state(state="PROGRESS", meta={"current": current, "total": total})


@shared_task(bind=True, ignore_result=False)
def answer(self, question, team=None):
    Recorder(self).set_progress(1, 2)
    return [
        question.upper(),
        TEAM.name,
        current_task.name,
        isinstance(self.request, Context),
    ]


@shared_task(bind=True, max_retries=2, default_retry_delay=0)
def embed(self, document, team=None):
    if document < 0:
        try:
            raise ConnectionResetError("embedding")
        except ConnectionResetError as error:
            raise self.retry(exc=error, countdown=0) from error
    return document * 2


@shared_task
def index(embedded, team=None):
    return sum(embedded)


@shared_task
def mark_failed(task_id):
    logger.error("%s failed", task_id)


@shared_task
def poll(): ...


@shared_task
def skip():
    raise Ignore
