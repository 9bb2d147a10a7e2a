"""Each test declares the durable tasks that it runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.durable.running import calls


@pytest.fixture(autouse=True)
def _tasks_are_forgotten(own_tasks: None) -> Iterator[None]:
    calls.clear()
    yield
    calls.clear()
