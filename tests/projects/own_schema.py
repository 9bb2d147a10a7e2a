"""All tables are in a schema of the project."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["OPTIONS"] = {"options": "-c search_path=project"}
