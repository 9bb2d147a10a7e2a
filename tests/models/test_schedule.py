"""What programs do with a schedule's row, while workers write to it, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pgqueue.models import Schedule

pytestmark = pytest.mark.django_db

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
A_TICK = {"next_at": NOON + DAY, "ticked_at": NOON, "message_id": 7, "error": ""}
"""What a worker writes."""


def stored(**columns: Any) -> Schedule:
    given = {"task": "tests.jobs.add", "args": [1], "cron": "0 12 * * *", **columns}
    return Schedule.objects.create(name="daily", next_at=NOON, error="none yet", **given)


def what_workers_wrote() -> dict[str, Any]:
    return Schedule.objects.values(*A_TICK).get()


class TestSaving:
    def test_leaves_the_tick_that_a_worker_has_done_meanwhile(self) -> None:
        schedule = stored()
        Schedule.objects.update(**A_TICK)

        schedule.args = [2]
        schedule.save()

        assert Schedule.objects.get().args == [2]
        assert what_workers_wrote() == A_TICK

    def test_one_that_was_made_under_the_same_name_does_so_too(self) -> None:
        stored()
        Schedule.objects.update(**A_TICK)

        Schedule(name="daily", task="tests.jobs.double", cron="0 12 * * *").save()

        assert Schedule.objects.get().task == "tests.jobs.double"
        assert what_workers_wrote() == A_TICK

    @pytest.mark.parametrize(
        "changed", [{"cron": "0 4 * * *"}, {"cron": "", "every": DAY}, {"timezone": "Asia/Tokyo"}]
    )
    @pytest.mark.parametrize("is_named", [True, False])
    def test_another_time_begins_with_the_next_tick(
        self, changed: dict[str, Any], is_named: bool
    ) -> None:
        schedule = stored()
        Schedule.objects.update(**A_TICK)

        for name, value in changed.items():
            setattr(schedule, name, value)
        schedule.save(update_fields=list(changed) if is_named else None)

        assert Schedule.objects.filter(**changed).exists()
        assert what_workers_wrote() == {**A_TICK, "next_at": None}

    def test_what_resumes_one_does_not_make_up_for_the_pause(self) -> None:
        schedule = stored(paused=True)

        schedule.paused = False
        schedule.save()

        assert Schedule.objects.values_list("paused", "next_at").get() == (False, None)

    def test_what_was_changed_already_by_another_session_changes_no_time(self) -> None:
        schedule = stored()
        Schedule.objects.update(cron="0 4 * * *", **A_TICK)

        schedule.cron = "0 4 * * *"
        schedule.save()

        assert what_workers_wrote() == A_TICK

    def test_one_of_code_leaves_what_the_code_has_said_meanwhile(self) -> None:
        schedule = stored(declared=True, definition="old")
        said = {"cron": "0 4 * * *", "args": [2], "definition": "new", "superseded": ["old"]}
        Schedule.objects.update(**said, seen_at=NOON, **A_TICK)

        schedule.channel, schedule.priority = "mail", 7
        schedule.save()

        assert Schedule.objects.values(*said, "seen_at").get() == {**said, "seen_at": NOON}
        assert Schedule.objects.values_list("channel", "priority").get() == ("mail", 7)
        assert what_workers_wrote() == A_TICK

    def test_one_of_code_pauses_and_resumes_it(self) -> None:
        schedule = stored(declared=True)

        schedule.paused = True
        schedule.save()
        assert Schedule.objects.get().paused
        schedule.paused = False
        schedule.save()

        assert Schedule.objects.values_list("paused", "next_at").get() == (False, None)

    def test_writes_what_is_named_and_nothing_else(self) -> None:
        schedule = stored()
        Schedule.objects.update(cron="0 4 * * *")

        schedule.args, schedule.next_at = [2], NOON - DAY
        schedule.save(update_fields=["args", "next_at"])

        row = Schedule.objects.get()
        assert (row.args, row.next_at, row.cron) == ([2], NOON - DAY, "0 4 * * *")


def test_update_or_create_begins_with_the_next_tick_too() -> None:
    stored()

    Schedule.objects.update_or_create(name="daily", defaults={"cron": "0 4 * * *"})

    assert Schedule.objects.values_list("cron", "next_at").get() == ("0 4 * * *", None)
