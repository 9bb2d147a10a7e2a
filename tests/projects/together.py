"""In German, with naive times, an own schema, bound parameters and a transaction for each request.

At night each setting is visited in its own project, too.
"""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

LANGUAGE_CODE = "de"
USE_THOUSAND_SEPARATOR = True
USE_TZ = False
TIME_ZONE = "America/New_York"
DATABASES["default"] |= {
    "ATOMIC_REQUESTS": True,
    "OPTIONS": {"options": "-c search_path=project", "server_side_binding": True},
}
