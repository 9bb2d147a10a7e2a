"""The settings of workers that are processes of their own: without the apps that only tests use.

A process starts a third faster without them, and the suite starts hundreds.
"""

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "pgqueue",
    "testproject.shop",
]
