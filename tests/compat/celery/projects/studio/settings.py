from common import *  # noqa: F403

CELERY_IMPORTS = ["studio.tasks"]
CELERY_RESULT_EXTENDED = True
CELERY_TASK_TRACK_STARTED = True
