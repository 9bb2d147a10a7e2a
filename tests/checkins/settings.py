"""The settings of a worker that reports the runs of schedules."""

from tests.worker_settings import *  # noqa: F403
from tests.worker_settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "tests.checkins.apps.Reporting"]
