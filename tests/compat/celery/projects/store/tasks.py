from celery.exceptions import MaxRetriesExceededError, Retry
from celery.utils.log import get_task_logger

from store.celeryconf import app

task_logger = get_task_logger(__name__)


class WebhookError(Exception):
    pass


@app.task(bind=True, retry_backoff=0, retry_kwargs={"max_retries": 2, "countdown": 0},
          autoretry_for=(WebhookError,))  # fmt: skip
def send_webhook(self, delivery_id):
    if self.request.retries < 2:
        raise WebhookError(str(delivery_id))
    return [delivery_id, self.request.retries]


@app.task(bind=True, max_retries=1)
def observe(self, attempt):
    try:
        raise self.retry(countdown=0)
    except MaxRetriesExceededError:
        return "given up"
    except Retry:
        task_logger.info("again")
        raise


@app.task(name="store.capture", allow_replica=False)
def capture(amount, currency="EUR"):
    return [amount, currency, capture.allow_replica, capture.replica]


@app.task
def toggle_sales(): ...
