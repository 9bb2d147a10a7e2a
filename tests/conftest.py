import os
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Start the embedded server and keep it up while the tests run."""
    # A worker of pytest-xdist is a child of the process that already holds it.
    if "DATABASE_URL" not in os.environ and not hasattr(config, "workerinput"):
        from pgqueue import embedded

        embedded.hold(project=Path(__file__).parent.parent)
