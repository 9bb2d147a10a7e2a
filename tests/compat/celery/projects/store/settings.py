from datetime import timedelta

from common import *  # noqa: F403

CELERY_TASK_ALWAYS_EAGER = not CELERY_BROKER_URL and not INSTALLED_APPS  # noqa: F405
CELERY_IMPORTS = ["store.tasks"]
CELERY_TASK_ROUTES = {"store.tasks.send_webhook": {"queue": "webhooks"}}
CELERY_BEAT_SCHEDULE = {
    "sales": {"task": "store.tasks.toggle_sales", "schedule": timedelta(hours=12)},
}
