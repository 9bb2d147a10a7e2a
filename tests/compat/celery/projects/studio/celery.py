"""A studio: an app's class of its own, whose tasks are enqueued once and report their progress."""

import os

from studio.apps import StudioApp

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "studio.settings")
app = StudioApp("studio")
app.config_from_object("django.conf:settings", namespace="CELERY")
