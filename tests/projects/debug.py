"""As on the machine of a developer."""

from tests.projects.base import *  # noqa: F403

DEBUG = True
