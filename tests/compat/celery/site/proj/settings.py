import json
import os

SECRET_KEY = "only-for-this-test"
DATABASES = {"default": json.loads(os.environ["SITE_DATABASE"])}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "demoapp",
    *os.environ["SITE_APPS"].split(),
]
ROOT_URLCONF = "proj.urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
ALLOWED_HOSTS = ["testserver"]
USE_TZ = True

CELERY_BROKER_URL = "memory://"
CELERY_RESULT_BACKEND = "cache+memory://"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = "json"
CELERY_RESULT_EXTENDED = True
CELERY_TASK_ROUTES = {"demoapp.tasks.mul": {"queue": "sums"}}
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
