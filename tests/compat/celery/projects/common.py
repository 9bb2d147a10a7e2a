"""Settings that all projects share."""

import json
import os

SECRET_KEY = "only-for-this-test"
DATABASES = {"default": json.loads(os.environ.get("SITE_DATABASE", "{}"))}
INSTALLED_APPS = os.environ.get("SITE_APPS", "").split()
USE_TZ = True
CELERY_BROKER_URL = os.environ.get("SITE_REDIS", "")
CELERY_RESULT_BACKEND = os.environ.get("SITE_REDIS", "")
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
