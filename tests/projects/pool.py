"""Connections are kept by a pool."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["OPTIONS"] = {"pool": {"min_size": 1, "max_size": 8}}
