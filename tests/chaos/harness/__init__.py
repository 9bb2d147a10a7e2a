from importlib.util import find_spec

# The environment of the peers has none, and the neutral benchmark starts servers there.
if find_spec("pytest"):
    import pytest

    pytest.register_assert_rewrite("tests.chaos.harness.ledger", "tests.chaos.harness.stage")
