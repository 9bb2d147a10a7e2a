"""Moving the stored times of the queue."""

from __future__ import annotations

from datetime import timedelta

import pytest

from pgqueue.models import Message
from pgqueue.testing import advance, run_all
from tests import jobs

pytestmark = pytest.mark.django_db


def test_time_passes_for_every_message() -> None:
    jobs.add.using(run_after=60, ttl=120).enqueue(1)
    before = Message.objects.get()

    advance(timedelta(seconds=30))

    after = Message.objects.get()
    for name in ("created_at", "run_at", "expires_at"):
        assert getattr(before, name) - getattr(after, name) == timedelta(seconds=30)
    assert run_all() == []


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="does not go back"):
        advance(-1)
