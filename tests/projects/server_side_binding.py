"""Parameters are sent apart from statements."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["OPTIONS"] = {"server_side_binding": True}
