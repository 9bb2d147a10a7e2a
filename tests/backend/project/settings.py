"""A project that uses django.tasks. Its queue is said in one place."""

import django
import environ

env = environ.Env()

DATABASES = {"default": env.db("DATABASE_URL")}
SECRET_KEY = "only-for-this-test"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "tests.backend.project.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
if django.VERSION < (6, 0):
    INSTALLED_APPS += ["django_tasks"]

# What is changed to move to pgqueue.
INSTALLED_APPS += env.list("QUEUE_APPS", default=[])
TASKS = {"default": {"BACKEND": env.str("QUEUE_BACKEND"), "QUEUES": ["default", "mail"]}}
