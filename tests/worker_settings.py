"""The settings of workers that are processes of their own: without what only tests use.

A process starts a third faster without those apps, and faster still without Django's tasks: the
package that brings them to Django 5.2 imports the admin. The suite starts hundreds.
"""

from typing import Any

from tests.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "pgqueue",
    "testproject.shop",
]
TASKS: dict[str, Any] = {}
