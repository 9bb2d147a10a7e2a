from celery.schedules import crontab
from common import *  # noqa: F403

CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_IMPORTS = ["forum.tasks"]
CELERY_TASK_PROTOCOL = 2
CELERY_BEAT_SCHEDULE = {
    "purge": {
        "task": "forum.tasks.purge",
        "schedule": crontab(hour=3, minute=0, day_of_week="sun"),
    },
}
