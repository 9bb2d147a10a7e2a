"""The queue has a database of its own, and nothing else says so."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES, PGQUEUE

DATABASES["queue"] = {**DATABASES["default"], "NAME": DATABASES["default"]["NAME"] + "_queue"}
PGQUEUE["DATABASE"] = "queue"
