from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.name in ("test_proof.py", "test_versions.py"):
            # Not beside a scenario of the chaos tests: both have servers and workers.
            item.add_marker(pytest.mark.xdist_group("chaos"))
