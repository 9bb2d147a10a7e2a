"""What the first version filled its tables with, and what today's workers run with here."""

from testproject.settings import DATABASES as OF_THE_PROJECT
from testproject.settings import SECRET_KEY, env

__all__ = ["SECRET_KEY"]

DATABASES = OF_THE_PROJECT
INSTALLED_APPS = ["django.contrib.contenttypes", "django.contrib.auth", "pgqueue", "tests.upgrade"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PGQUEUE = {"LEASE": env.float("PGQUEUE_LEASE", default=1.0)}
