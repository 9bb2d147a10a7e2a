"""These commit, as the engine's tests do."""

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
