"""The queue has a database of its own; pools keep connections, and transactions are serializable.

At night each setting is visited in its own project, too.
"""

from django.db.backends.postgresql.psycopg_any import IsolationLevel

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES, PGQUEUE

DATABASES["default"]["OPTIONS"] = {
    "isolation_level": IsolationLevel.SERIALIZABLE,
    "pool": {"min_size": 1, "max_size": 8},
}
DATABASES["queue"] = {**DATABASES["default"], "NAME": DATABASES["default"]["NAME"] + "_queue"}
PGQUEUE["DATABASE"] = "queue"
