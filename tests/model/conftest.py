"""These commit, as the engine's tests do."""

from tests.engine.conftest import _every_test_commits, broom, connect, transactional_db

__all__ = ["_every_test_commits", "broom", "connect", "transactional_db"]
