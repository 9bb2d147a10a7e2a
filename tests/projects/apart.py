"""The queue has a database of its own; pools keep connections, and transactions are serializable.

At night each setting is visited in its own project, too.
"""

from django.db.backends.postgresql.psycopg_any import IsolationLevel

from tests.projects.no_router import *  # noqa: F403
from tests.projects.no_router import DATABASES

for database in DATABASES.values():
    database["OPTIONS"] = {
        "isolation_level": IsolationLevel.SERIALIZABLE,
        "pool": {"min_size": 1, "max_size": 8},
    }
