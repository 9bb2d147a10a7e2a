"""Fixtures for pytest, named as the functions of `pgqueue.testing` that they return.

pytest loads this module in each run, whether Django is used or not: it imports nothing of Django's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pgqueue.events.recorded import RecordedEvent
    from pgqueue.tasks import TaskResult


@pytest.fixture
def run_all() -> Callable[..., list[TaskResult[Any]]]:
    """Return `pgqueue.testing.run_all`."""
    from pgqueue import testing

    return testing.run_all


@pytest.fixture
def immediate() -> Callable[..., AbstractContextManager[None]]:
    """Return `pgqueue.testing.immediate`, a context manager."""
    from pgqueue import testing

    return testing.immediate


@pytest.fixture
def assert_enqueued() -> Callable[..., list[TaskResult[Any]]]:
    """Return `pgqueue.testing.assert_enqueued`."""
    from pgqueue import testing

    return testing.assert_enqueued


@pytest.fixture
def assert_not_enqueued() -> Callable[..., None]:
    """Return `pgqueue.testing.assert_not_enqueued`."""
    from pgqueue import testing

    return testing.assert_not_enqueued


@pytest.fixture
def assert_published() -> Callable[..., list[RecordedEvent]]:
    """Return `pgqueue.testing.assert_published`."""
    from pgqueue import testing

    return testing.assert_published


@pytest.fixture
def assert_not_published() -> Callable[..., None]:
    """Return `pgqueue.testing.assert_not_published`."""
    from pgqueue import testing

    return testing.assert_not_published


@pytest.fixture
def advance() -> Callable[..., None]:
    """Return `pgqueue.testing.advance`."""
    from pgqueue import testing

    return testing.advance
