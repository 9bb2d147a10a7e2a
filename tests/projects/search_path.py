"""The tables are in public, which another schema comes before."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["OPTIONS"] = {"options": "-c search_path=other,public"}
