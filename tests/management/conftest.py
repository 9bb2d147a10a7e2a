from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.db import connections

Connection = psycopg.Connection[Any]


@pytest.fixture
def queue(db: None) -> Connection:
    """Django's own connection, in the transaction of the test, for the engine's verbs."""
    connections["default"].ensure_connection()
    connection: Connection = connections["default"].connection
    return connection
