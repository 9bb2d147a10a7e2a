"""Each request is a transaction."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["ATOMIC_REQUESTS"] = True
