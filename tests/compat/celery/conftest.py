from collections.abc import Iterator

import pytest

from pgqueue.compat.celery import current
from tests.compat.celery import jobs


@pytest.fixture(autouse=True)
def _each_test_is_alone(own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tasks and apps that a test makes are gone after it, and what tasks have left."""
    monkeypatch.setattr(current, "apps", [])
    monkeypatch.setattr(current, "shared", [])
    jobs.SEEN.clear()
    jobs.app.conf.touch()
    yield
    jobs.SEEN.clear()
