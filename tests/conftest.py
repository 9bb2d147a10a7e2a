import os
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples each time: what lands is not a matter of luck. To look for more,
# `pytest --hypothesis-profile=default`, which finds others in each run.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Start the embedded server and keep it up while the tests run."""
    # A worker of pytest-xdist is a child of the process that already holds it.
    if "DATABASE_URL" not in os.environ and not hasattr(config, "workerinput"):
        from pgqueue import embedded

        embedded.hold(project=Path(__file__).parent.parent)
