from common import *  # noqa: F403

CELERY_IMPORTS = ["chat.tasks"]
CELERY_TASK_SOFT_TIME_LIMIT = 60
CELERY_BEAT_SCHEDULE = {"poll": {"task": "chat.tasks.poll", "schedule": 3600}}
