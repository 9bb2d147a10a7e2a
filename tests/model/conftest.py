"""These commit, as the engine's tests do."""

import pytest

from tests.engine.conftest import _every_test_commits, broom, connect, transactional_db

__all__ = ["_every_test_commits", "broom", "connect", "transactional_db"]

pytest.register_assert_rewrite("tests.model.log", "tests.model.machine", "tests.model.torture")
