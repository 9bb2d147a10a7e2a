"""Tests of the WAL feed: on real connections, with a slot for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.events.conftest import (  # noqa: F401
    _every_test_commits,
    _nobody_waits,
    broom,
    connect,
    connection,
    other,
    step,
    transactional_db,
)
from tests.feeding import by_wal, slot_made


@pytest.fixture
def slot(transactional_db: None) -> Iterator[str]:  # noqa: F811
    """A slot and a publication, which the settings name."""
    with by_wal(), slot_made() as name:
        yield name
