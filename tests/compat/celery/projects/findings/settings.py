from common import *  # noqa: F403

CELERY_IMPORTS = ["findings.tasks"]
CELERY_TASK_IGNORE_RESULT = False
CELERY_TASK_SERIALIZER = "json"
CELERY_FINDINGS_BATCH = 10
