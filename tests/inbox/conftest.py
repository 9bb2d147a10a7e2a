"""Tests of what comes from outside: on real connections, and each begins with empty tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine.conftest import (  # noqa: F401
    broom,
    connect,
    connection,
    other,
    step,
    transactional_db,
)
from tests.events.conftest import dispatch  # noqa: F401
from tests.inbox import handlers


@pytest.fixture(autouse=True)
def _every_test_commits(transactional_db: None) -> None:  # noqa: F811
    pass


@pytest.fixture(autouse=True)
def _nothing_booked() -> Iterator[None]:
    handlers.failing.clear()
    yield
    handlers.failing.clear()
