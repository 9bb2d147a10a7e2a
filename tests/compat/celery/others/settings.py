"""A project with other packages that import Celery: they find pgqueue's in its place."""

import json
import os
import sys

import pgqueue.compat.celery

sys.modules["celery"] = pgqueue.compat.celery

SECRET_KEY = "none"
USE_TZ = True
ALLOWED_HOSTS = ["testserver"]
ROOT_URLCONF = "celery_progress.urls"
DATABASES = {"default": json.loads(os.environ["SITE_DATABASE"])}
INSTALLED_APPS = ["pgqueue", "celery_progress", "django_celery_results"]
CELERY_RESULT_BACKEND = "django-db"
