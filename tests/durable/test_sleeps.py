"""Sleeps of durable runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from pgqueue.durable import DurableContext
from pgqueue.models import Message, Step
from pgqueue.testing import advance
from tests.durable.running import (
    attempts,
    durable,
    kept,
    refused,
    returned,
    run,
)

pytestmark = pytest.mark.django_db(transaction=True)

DAY = timedelta(days=1)


class TestASleep:
    @pytest.mark.parametrize("duration", [14 * DAY, 14 * 86_400.0])
    def test_ends_after_its_duration(self, duration: Any) -> None:
        @durable
        def works(run: DurableContext) -> str:
            run.sleep(duration, name="return window")
            return "over"

        result = works.enqueue()

        assert run(result) == "scheduled"
        assert Message.objects.get().worker_id is None
        advance(14 * DAY - timedelta(minutes=1))
        assert run(result) == "scheduled"
        advance(timedelta(minutes=2))
        assert returned(result) == "over"
        assert attempts(result) == 2
        assert kept(result)["steps"][0]["name"] == "return window"

    def test_ends_at_a_time(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.sleep(datetime(2150, 1, 1, tzinfo=UTC))

        result = works.enqueue()

        assert run(result) == "scheduled"
        assert Message.objects.get().run_at == datetime(2150, 1, 1, tzinfo=UTC)
        assert Step.objects.get().until == datetime(2150, 1, 1, tzinfo=UTC)

    @pytest.mark.parametrize("duration", [0, -5, timedelta(days=-1), timezone.now() - DAY])
    def test_of_no_time_goes_on_at_once(self, duration: Any) -> None:
        @durable
        def works(run: DurableContext) -> int:
            run.sleep(duration)
            return run.attempt

        assert returned(works.enqueue()) <= 2

    @pytest.mark.parametrize("duration", ["soon", None, datetime(2150, 1, 1), float("nan"), [], {}])
    def test_of_an_invalid_duration_is_refused(self, duration: Any) -> None:
        def works(run: DurableContext) -> None:
            run.sleep(duration)

        assert "sleep() for" in refused(works)

    def test_of_an_hour_that_is_run_now_is_over(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.sleep(3600)
            run.sleep(3600)

        result = works.enqueue()
        run(result)
        Message.objects.all().run_now()

        assert run(result) == "scheduled"
        Message.objects.all().run_now()
        assert run(result) == "succeeded"

    def test_is_not_over_where_its_run_goes_on_too_early(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.sleep(3600)

        result = works.enqueue()
        run(result)
        until = Message.objects.get().run_at
        Message.objects.update(state="ready")

        assert run(result) == "scheduled"
        assert (Message.objects.get().run_at, Step.objects.get().until) == (until, until)

    def test_may_follow_a_sleep(self) -> None:
        @durable
        def works(run: DurableContext) -> list[int]:
            return [run.sleep(60) or run.attempt for _ in range(3)]

        result = works.enqueue()
        for number in (1, 2, 3):
            run(result)
            assert Message.objects.get().attempt == number
            advance(61)

        assert returned(result) == [4] * 3
