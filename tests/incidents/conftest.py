"""These commit, as the engine's tests do, and step several sessions."""

from collections.abc import Iterator

import pytest

from pgqueue.events import growth
from tests.engine.conftest import (
    _every_test_commits,
    broom,
    connect,
    connection,
    other,
    step,
    third,
    transactional_db,
)

__all__ = [
    "_every_test_commits",
    "broom",
    "connect",
    "connection",
    "other",
    "step",
    "third",
    "transactional_db",
]


@pytest.fixture(autouse=True)
def _nobody_waits() -> Iterator[None]:
    """Forget this process's wish to be notified: its row is swept away with the tables."""
    yield
    growth.forget_all()
