"""`manage.py pgqueue_channel`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from pgqueue import Channel
from pgqueue.engine import live_counts
from pgqueue.models import Breaker, History, Message, Policy
from pgqueue.models import Channel as Row
from tests.factories import bury, enqueue, insert, run, schedule

Connection = psycopg.Connection[Any]


def said(*arguments: str) -> str:
    """Return what the command says."""
    output = StringIO()
    call_command("pgqueue_channel", *arguments, stdout=output)
    return output.getvalue().strip()


class TestABreaker:
    def test_is_set_shown_and_closed(self, queue: Connection) -> None:
        limits = ("policy", "mail", "--breaker", "2", "60", "600", "--format", "json")
        policies = json.loads(said(*limits))["policies"]
        until = datetime.now(UTC) + timedelta(minutes=5)
        Breaker.objects.create(channel="mail", key="", failed_at=[], open_until=until)

        text, plain = said("show", "mail"), json.loads(said("show", "mail", "--format", "json"))

        assert policies == [{"scope": "channel", "breaker": [2, 60.0, 600.0]}]
        assert "policy scope channel, breaker [2, 60.0, 600.0]" in text
        assert "breaker open, 0 of 2 failures, until" in text
        assert [each["state"] for each in plain["breakers"]] == ["open"]
        assert said("resume", "mail") == "Resumed."
        assert said("resume", "mail") == "It was not paused."

    @pytest.mark.parametrize(
        "values", [("0", "60", "30"), ("1.5", "60", "30"), ("nan", "60", "30"), ("5", "60", "inf")]
    )
    def test_with_an_invalid_value_is_refused(
        self, queue: Connection, values: tuple[str, ...]
    ) -> None:
        with pytest.raises(CommandError, match="breaker: "):
            said("policy", "mail", "--breaker", *values)


class TestLooking:
    def test_list_has_a_line_for_each_channel(self, queue: Connection) -> None:
        enqueue(queue, 3, channel="mail")
        bury(queue, channel="a longer name")

        lines = said("list").splitlines()

        assert lines[0].split()[:6] == ["channel", "ready", "scheduled", "held", "running", "dead"]
        assert lines[1].removeprefix("a longer name").split()[:6] == ["0", "0", "0", "0", "1", "-"]
        assert lines[2].split()[:7] == ["mail", "3", "0", "0", "0", "0", "0:00:00"]

    def test_list_marks_what_is_an_estimate(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(live_counts, "BOUND", 5)
        monkeypatch.setattr(live_counts, "LEAST", 5)
        enqueue(queue, 9, channel="mail")

        assert said("list").splitlines()[1].split()[1].startswith("~")

    def test_list_may_be_json(self, queue: Connection) -> None:
        schedule(queue, 2, channel="mail")

        found = json.loads(said("list", "--format", "json"))

        assert found["mail"]["scheduled"] == 2
        assert found["mail"]["oldest_ready_age"] is None
        assert found["mail"]["estimated"] == []

    def test_show_tells_of_one_and_its_policies(self, queue: Connection) -> None:
        enqueue(queue, 3, channel="mail")
        Channel("mail").policy(max_running=7)
        Channel("mail").policy(rate=5, per=60, key="c:1")

        text = said("show", "mail")
        found = json.loads(said("show", "mail", "--format", "json"))

        assert "ready 3" in text
        assert "policy scope channel, max_running 7" in text
        assert "policy scope key, key c:1, rate 5.0, per 60.0" in text
        assert found["ready"] == 3
        assert found["policies"] == [
            {"scope": "channel", "max_running": 7},
            {"scope": "key", "key": "c:1", "rate": 5.0, "per": 60.0},
        ]


class TestPolicy:
    def test_is_saved_and_removed(self, db: None) -> None:
        limits = ["--max-running", "3", "--rate", "5", "--per", "60", "--burst", "2"]

        assert said("policy", "mail", *limits, "--max-size", "9") == "Saved."
        assert said("policy", "mail", "--each-key", "--weight", "2") == "Saved."
        assert said("policy", "mail", "--key", "c:1", "--max-running", "4") == "Saved."

        columns = ("scope", "key", "max_running", "rate", "burst", "max_size", "weight")
        assert list(Policy.objects.order_by("scope").values_list(*columns)) == [
            ("channel", "", 3, 5.0, 2, 9, None),
            ("each", "", None, None, None, None, 2),
            ("key", "c:1", 4, None, None, None, None),
        ]
        assert said("policy", "mail", "--key", "c:1", "--remove") == "Removed."
        assert said("policy", "mail", "--key", "c:1", "--remove") == "There was none."
        assert Policy.objects.count() == 2

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["--max-running", "0"], "'0': it must be a whole number, 1 or more"),
            (["--weight", "3"], "only keys have one"),
            (["--each-key", "--key", "a", "--weight", "3"], "key='a'"),
            ([], "has no limit"),
            (["--remove", "--rate", "3"], "leave out rate"),
            (["--rate", "many"], "invalid float value"),
        ],
    )
    def test_that_can_not_be_is_an_error(self, db: None, arguments: list[str], error: str) -> None:
        with pytest.raises(CommandError, match=error):
            said("policy", "mail", *arguments)

        assert not Policy.objects.exists()


class TestRetention:
    def test_is_stated_as_a_whole(self, db: None) -> None:
        def kept() -> dict[str, float]:
            found = json.loads(said("show", "mail", "--format", "json"))
            return {name: value for name, value in found.items() if "retention" in name}

        assert said("retention", "mail", "--history", "60", "--dead", "300") == "Saved."
        as_one = kept()
        assert "dead retention 0:05:00" in said("show", "mail")
        said("retention", "mail", "--succeeded", "7")
        of_one = kept()
        said("retention", "mail", "--succeeded", "7", "--history", "60")
        mixed = kept()
        said("retention", "mail")

        assert as_one == {"retention": 60, "dead_retention": 300}
        assert of_one == {"retention_succeeded": 7}
        others = ("cancelled", "discarded", "expired")
        assert mixed == {
            "retention_succeeded": 7,
            **{f"retention_{outcome}": 60 for outcome in others},
        }
        assert kept() == {}

    def test_that_can_not_be_is_an_error(self, db: None) -> None:
        with pytest.raises(CommandError, match="longer than 0"):
            said("retention", "mail", "--expired", "0")

        assert not Row.objects.exists()


class TestJSON:
    @pytest.mark.parametrize(
        ("words", "plain"),
        [
            (["pause"], {"paused": True, "changed": True}),
            (["resume"], {"paused": False, "changed": False}),
            (
                ["policy", "--max-running=3"],
                {"policies": [{"scope": "channel", "max_running": 3}]},
            ),
            (["policy", "--remove"], {"removed": False}),
            (["retention", "--dead=60"], {"dead_retention": 60.0}),
            (["purge"], {"dry_run": False, "discarded": 0}),
            (["trim", "--keep=1"], {"dry_run": False, "discarded": 0}),
        ],
        ids=str,
    )
    def test_is_what_each_verb_can_say(
        self, db: None, words: list[str], plain: dict[str, Any]
    ) -> None:
        verb, *rest = words

        found = json.loads(said(verb, "mail", *rest, "--format=json"))

        assert found == {"channel": "mail", **plain}


class TestPausing:
    def test_is_said_once(self, db: None) -> None:
        assert said("pause", "mail") == "Paused."
        assert said("pause", "mail") == "It was paused already."
        assert Row.objects.get().paused
        assert said("resume", "mail") == "Resumed."
        assert said("resume", "mail") == "It was not paused."

    def test_counts_no_messages(self, db: None) -> None:
        with patch("pgqueue.operating.channels.measure", side_effect=AssertionError):
            assert said("pause", "mail", "--until=2999-01-31").startswith("Paused. The pause ends")

    def test_says_its_end(self, db: None) -> None:
        end = "2999-01-31T08:30:00+00:00"

        assert said("pause", "mail", "--until=2999-01-31T08:30Z") == (
            f"Paused. The pause ends at {end}."
        )

        assert json.loads(said("pause", "mail", f"--until={end}", "--format=json")) == {
            "channel": "mail",
            "paused": True,
            "changed": False,
            "until": end,
        }
        assert "pause paused until 2999-01-31 08:30:00" in said("show", "mail")
        assert json.loads(said("show", "mail", "--format=json"))["paused_until"] == end

    def test_with_an_end_that_has_passed_is_refused(self, db: None) -> None:
        with pytest.raises(CommandError, match="it must be later than now"):
            said("pause", "mail", "--until=2001-01-31T08:30Z")


class TestEmptying:
    def test_purge_and_trim_say_how_many(self, queue: Connection) -> None:
        enqueue(queue, 3, channel="mail")
        insert(queue, channel="mail", state="dead")
        enqueue(queue, channel="other")

        assert said("trim", "mail", "--keep", "2") == "1 discarded."
        assert said("purge", "mail") == "3 discarded."
        assert History.objects.count() == 4
        assert Message.objects.get().channel == "other"

    def test_a_dry_run_counts_what_would_be_discarded_and_changes_nothing(
        self, queue: Connection
    ) -> None:
        ids = enqueue(queue, 12, channel="mail")
        run(queue, channel="busy")
        insert(queue, channel="mail", state="dead")
        old = insert(queue, channel="mail", created_at="2026-01-01T00:00Z")

        def found(*words: str) -> Any:
            return json.loads(said(*words, "--dry-run", "--format=json"))

        assert found("purge", "mail")["found"] == 14
        assert [each["id"] for each in found("purge", "mail")["sample"]] == ids[:10]
        assert found("trim", "mail", "--keep=11")["found"] == 2
        aged = found("trim", "mail", "--older-than=86400")
        assert [each["id"] for each in aged["sample"]] == [old]
        assert found("purge", "busy")["found"] == 0
        assert said("purge", "mail", "--dry-run").startswith("14 would be discarded. Nothing")
        assert Message.objects.count() == 15
        assert not History.objects.exists()

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (["trim", "mail"], "Give older_than, or keep"),
            (["trim", "mail", "--keep", "-1"], "'-1': it must be a whole number, 0 or more"),
            (["purge", ""], "'': it must be a name"),
            (["purge"], "NAME"),
            (["explode", "mail"], "invalid choice"),
            (["list", "--database", "nowhere"], "DATABASES has no 'nowhere'"),
        ],
    )
    def test_what_can_not_be_is_an_error(self, db: None, arguments: list[str], error: str) -> None:
        with pytest.raises(CommandError, match=error):
            said(*arguments)


@pytest.mark.django_db(transaction=True)
def test_drain_and_release_say_whether_it_came_to_that() -> None:
    connections["default"].ensure_connection()
    enqueue(connections["default"], channel="mail")
    Channel("mail").policy(max_running=1)

    for verb in ("drain", "release"):
        with pytest.raises(CommandError, match=r"After 0\.05 s there is still something to do"):
            said(verb, "mail", "--timeout", "0.05")
    Message.objects.all().cancel()

    assert said("drain", "mail") == "Nothing is left to do."
    assert said("release", "mail") == "Released."
    assert not Policy.objects.exists()


@pytest.mark.django_db(databases=["default", "second"])
def test_another_database_may_be_named() -> None:
    assert said("pause", "mail", "--database", "second") == "Paused."

    assert Row.objects.using("second").get().name == "mail"
    assert not Row.objects.exists()
