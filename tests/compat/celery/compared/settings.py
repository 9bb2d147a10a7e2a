"""Settings of the compared project: the same on Celery and on pgqueue."""

import json
import os
import sys

if os.environ["COMPARED"] == "pgqueue":
    import pgqueue.compat.celery

    sys.modules["celery"] = pgqueue.compat.celery

SECRET_KEY = "only-for-this-test"
DATABASES = {"default": json.loads(os.environ.get("SITE_DATABASE", "{}"))}
INSTALLED_APPS = ["pgqueue"] if os.environ["COMPARED"] == "pgqueue" else []
USE_TZ = True
PGQUEUE = {"POLL_INTERVAL": 1}

CELERY_BROKER_URL = os.environ.get("SITE_REDIS", "")
CELERY_RESULT_BACKEND = os.environ.get("SITE_REDIS", "")
CELERY_RESULT_EXTENDED = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_IMPORTS = ["compared.jobs"]
