import pytest

pytest.register_assert_rewrite("tests.chaos.harness.ledger", "tests.chaos.harness.stage")
