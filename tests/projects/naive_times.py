"""Times are naive, in the zone of the project."""

from tests.projects.base import *  # noqa: F403

USE_TZ = False
TIME_ZONE = "America/New_York"
