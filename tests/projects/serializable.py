"""Transactions are serializable."""

from django.db.backends.postgresql.psycopg_any import IsolationLevel

from tests.projects.base import *  # noqa: F403
from tests.projects.base import DATABASES

DATABASES["default"]["OPTIONS"] = {"isolation_level": IsolationLevel.SERIALIZABLE}
