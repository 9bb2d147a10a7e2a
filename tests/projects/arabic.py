"""In a language that is written from right to left."""

from tests.projects.base import *  # noqa: F403

LANGUAGE_CODE = "ar"
TIME_ZONE = "Asia/Riyadh"
