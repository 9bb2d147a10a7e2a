"""What a schedule may say; without a database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from pgqueue import Schedule, task
from pgqueue.conf import read
from pgqueue.exceptions import InvalidSchedule, InvalidTask
from pgqueue.options.schedules import as_schedules
from pgqueue.options.ticks import Cron, Every
from tests import jobs

NIGHTLY = {"task": "tests.jobs.add", "when": "0 3 * * *"}


class TestASchedule:
    def test_is_a_cron_line_in_the_projects_time_zone(self) -> None:
        with override_settings(TIME_ZONE="Europe/Berlin"):
            assert Schedule("0 3  * * *").rhythm == Cron("0 3 * * *", "Europe/Berlin")

        assert Schedule("@daily", timezone="Asia/Tokyo").rhythm == Cron("@daily", "Asia/Tokyo")

    @pytest.mark.parametrize("when", [300, 300.0, timedelta(minutes=5)])
    def test_is_an_interval_as_seconds_or_timedelta(self, when: Any) -> None:
        assert Schedule(when).rhythm == Every(timedelta(minutes=5))

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"when": "0 3 * *"}, "no cron line"),
            ({"when": None}, "neither a cron line nor an interval"),
            ({"when": True}, "neither a cron line nor an interval"),
            ({"when": 1e300}, "too long"),
            ({"when": 0.1}, "a second or more"),
            ({"when": "@daily", "timezone": "Mars"}, "no time zone 'Mars'"),
            ({"when": "@daily", "timezone": 1}, "name of a time zone"),
            ({"when": 60, "timezone": "UTC"}, "an interval has none"),
            ({"when": "@daily", "missed": "never"}, "'skip', 'once', 'all'"),
            ({"when": "@daily", "overlap": "queue"}, "'allow', 'skip', 'one'"),
            ({"when": "@daily", "args": "abc"}, "a list or a tuple"),
            ({"when": "@daily", "kwargs": []}, "a dict"),
            ({"when": "@daily", "name": "n" * 501}, "500 bytes long at most"),
            ({"when": "@daily", "name": "a\x00"}, "NUL"),
        ],
    )
    def test_that_can_not_be_is_refused(self, given: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidSchedule, match=said):
            Schedule(**given)


class TestATask:
    def test_takes_one_or_several(self) -> None:
        assert [each.when for each in as_schedules("@daily")] == ["@daily"]
        assert [each.when for each in as_schedules(["@daily", Schedule(60, name="b")])] == [
            "@daily",
            60,
        ]

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ("every day", "schedule='every day'.*no cron line"),
            (["@daily", "@hourly"], "needs its own name"),
        ],
    )
    def test_refuses_by_the_name_of_the_option(self, given: Any, said: str) -> None:
        with pytest.raises(InvalidTask, match=said):
            task(schedule=given)(jobs.add.func)

    def test_has_them_from_its_decorator_only(self) -> None:
        with pytest.raises(InvalidTask, match="schedule belongs to the function"):
            jobs.add.using(schedule="@daily")  # type: ignore[call-arg]


class TestTheSetting:
    def test_has_schedules_by_their_names(self) -> None:
        found = read({"SCHEDULES": {"nightly": {**NIGHTLY, "args": [1], "missed": "all"}}})

        entry = found.schedules["nightly"]
        assert entry.task == "tests.jobs.add"
        assert entry.schedule == Schedule("0 3 * * *", name="nightly", args=[1], missed="all")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ([], "a dict of dicts"),
            ({"nightly": "0 3 * * *"}, "'nightly': '0 3 .*' is no dict"),
            ({"nightly": {**NIGHTLY, "time_zone": "UTC"}}, "'nightly': .*mean 'timezone'"),
            ({"nightly": {**NIGHTLY, "colour": 1}}, "There are task, when"),
            ({"nightly": {"when": "@daily"}}, "'nightly': it needs 'task'"),
            ({"nightly": {"task": "a.b"}}, "'nightly': it needs 'when'"),
            ({"nightly": {**NIGHTLY, "task": jobs.add}}, "an import path"),
            ({"nightly": {**NIGHTLY, "when": "0 3 * *"}}, "'nightly': .*no cron line"),
            ({"": NIGHTLY}, "it must be a name"),
        ],
    )
    def test_that_can_not_be_is_refused_by_name(self, given: Any, said: str) -> None:
        with pytest.raises(ImproperlyConfigured, match=said):
            read({"SCHEDULES": given})
