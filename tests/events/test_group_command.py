"""`manage.py pgqueue_group`: groups by their names, and reading for them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from unittest.mock import Mock

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.utils import timezone

from pgqueue import Rebuild, consumer
from pgqueue.events import groups
from pgqueue.events.publishing import publish, publish_many
from pgqueue.management.commands.pgqueue_group import _stop
from pgqueue.models import Cursor, Group, Message, Reader
from tests.eventually import eventually
from tests.processes import database_url
from tests.starting import Popen

pytestmark = pytest.mark.slow


def call(*words: Any) -> str:
    """Run the command here; return what it said."""
    out = StringIO()
    call_command("pgqueue_group", *words, stdout=out)
    return out.getvalue().strip()


def position(group: str = "g") -> int:
    return int(Cursor.objects.get(group=group).position)


class TestList:
    def test_shows_a_line_for_each(self) -> None:
        publish_many([("a", n) for n in range(3)])
        groups.make("billing", start="beginning", partitions=2)
        groups.make("mail")

        assert call("list").splitlines() == [
            "group    partitions  position  lag  readers  state",
            "billing  2           0         3    0        -",
            "mail     1           3         0    0        -",
        ]

    def test_shows_what_has_stopped_a_group_or_is_retried(self) -> None:
        for name in ("a", "b", "c"):
            groups.make(name)
        Cursor.objects.filter(group="a").update(is_stopped=True, error="ValueError: no")
        Cursor.objects.filter(group="b").update(error="ValueError: not yet")

        _, *lines = call("list").splitlines()

        assert [line.split(maxsplit=5)[5] for line in lines] == [
            "stopped: ValueError: no",
            "retrying: ValueError: not yet",
            "-",
        ]

    def test_as_json_has_all_of_it(self) -> None:
        publish("a")
        groups.make("g", start="beginning")

        (listed,) = json.loads(call("list", "--format=json"))

        updated_at = datetime.fromisoformat(listed.pop("updated_at"))
        assert abs(updated_at - datetime.now(UTC)) < timedelta(minutes=1)
        assert listed == {
            "name": "g",
            "partitions": 1,
            "position": 0,
            "lag": 1,
            "readers": 0,
            "stopped": 0,
            "error": "",
        }

    def test_of_none_is_empty(self) -> None:
        assert json.loads(call("list", "--format=json")) == []
        assert call("list") == "group  partitions  position  lag  readers  state"


class TestMake:
    def test_makes_a_group_once(self) -> None:
        assert call("make", "g", "--partitions=3") == "The group g has 3 partitions."
        assert call("make", "g") == "The group g has 3 partitions."
        assert call("make", "h") == "The group h has 1 partition."
        assert json.loads(call("make", "g", "--format=json")) == {"name": "g", "partitions": 3}
        assert Group.objects.count() == 2

    @pytest.mark.parametrize(
        ("start", "after"),
        [("now", 3), ("beginning", 0), ("2", 2), ("2020-01-01T00:00:00Z", 0), ("2090-01-01", 3)],
    )
    def test_begins_where_it_says(self, start: str, after: int) -> None:
        publish_many([("a", n) for n in range(3)])

        call("make", "g", f"--start={start}")

        assert position() == after

    @pytest.mark.parametrize(
        "words",
        [
            *(["make", ""], ["make", "x" * 191], ["make", "g", "--partitions=0"]),
            *(["make", "g", "--partitions=1025"], ["make", "g", "--start=later"]),
            *(["make", "g", "--start=99"], ["make", "g", "--start=-1"], ["make"], ["nothing"]),
        ],
    )
    def test_refuses_what_can_not_be(self, words: list[str]) -> None:
        with pytest.raises(CommandError):
            call(*words)

        assert not Group.objects.exists()


class TestReset:
    @pytest.mark.parametrize(
        ("to", "after"), [("now", 3), ("beginning", 0), ("2", 2), ("2020-01-01T00:00:00Z", 0)]
    )
    def test_moves_it(self, to: str, after: int) -> None:
        publish_many([("a", n) for n in range(3)])
        groups.make("g", start=1)

        assert call("reset", "g", to) == f"It goes on after position {after}."
        assert position() == after

    @pytest.mark.parametrize("words", [["nobody", "now"], ["g", "99"], ["g", "later"], ["g"]])
    def test_refuses_what_can_not_be(self, words: list[str]) -> None:
        groups.make("g")

        with pytest.raises(CommandError):
            call("reset", *words)


class TestRebuild:
    def test_begins_one(self) -> None:
        publish("a")
        hooks = Rebuild(begin=str, hand_over=str)
        consumer("g", rebuild=hooks)(lambda event: None)
        groups.make("g")

        assert call("rebuild", "g") == "Its readers rebuild it, from after position 0."
        assert position("g:rebuild") == 0
        with pytest.raises(CommandError, match="is being rebuilt"):
            call("rebuild", "g")
        call("delete", "g:rebuild")
        assert json.loads(call("rebuild", "g", "--format=json")) == {"name": "g", "position": 0}


class TestResumeAndDelete:
    def test_resume_what_is_stopped(self) -> None:
        groups.make("g", partitions=3)
        Cursor.objects.filter(partition__gt=0).update(is_stopped=True)

        assert call("resume", "g") == "Resumed 2 partitions."
        assert not Cursor.objects.filter(is_stopped=True).exists()
        assert call("resume", "g") == "Resumed 0 partitions."

    def test_delete_a_group(self) -> None:
        groups.make("g")

        assert call("delete", "g") == "Deleted."
        assert not Group.objects.exists()

    @pytest.mark.parametrize("verb", ["resume", "delete"])
    def test_name_a_group_that_there_is_not(self, verb: str) -> None:
        with pytest.raises(CommandError, match="'nobody'"):
            call(verb, "nobody")


@contextmanager
def running(*words: str, verb: str = "run") -> Iterator[subprocess.Popen[str]]:
    """Run the command in a process of its own; it is gone at the end of the block."""
    process = Popen(
        ["manage.py", "pgqueue_group", verb, *words],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.events.project",
            "DATABASE_URL": database_url(),
        },
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


class TestRun:
    def test_of_a_group_without_a_handler_is_refused(self) -> None:
        with pytest.raises(CommandError, match="for the group 'nobody' in the modules"):
            call("run", "nobody")

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    def test_handles_until_it_is_told_to_end(self, number: signal.Signals) -> None:
        publish_many([("a", n) for n in range(20)])
        with running("command.first", "command.second") as process:
            eventually(lambda: Message.objects.count() == 20, within=30)
            publish("a", 20)
            eventually(lambda: Message.objects.count() == 21)
            eventually(lambda: {each.position for each in Cursor.objects.all()} == {21})
            process.send_signal(signal.SIGUSR1)
            process.send_signal(signal.SIGUSR2)
            owners = Cursor.objects.values_list("reader_id", flat=True)
            assert None not in owners

            process.send_signal(number)

            assert process.wait(20) == 0
        assert set(Cursor.objects.values_list("position", "reader_id")) == {(21, None)}
        assert not Reader.objects.exclude(group=None).exists()

    def test_ends_between_two_events_of_those_that_it_has_read(self) -> None:
        publish_many([("slow", n) for n in range(400)])
        with running("command.slow") as process:
            eventually(lambda: Message.objects.exists(), within=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

        handled = Message.objects.count()
        assert 0 < handled < 400
        assert position("command.slow") == handled

    def test_survives_an_event_that_kills_its_process(self) -> None:
        publish_many([("kill.it", 1), ("kill.it", "kill"), ("kill.it", 2)])
        for _ in range(3):
            with running("command.killed") as process:
                assert process.wait(30) == 9
            # Its lease is over.
            Cursor.objects.update(lease_until=timezone.now())
        with running("command.killed") as process:
            eventually(lambda: position("command.killed") == 3, within=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

        letter = Message.objects.dead().get()
        assert letter.errors[-1]["class"] == "pgqueue.exceptions.ReaderLost"
        assert 2 in Message.objects.filter(channel="seen").values_list("payload", flat=True)

    def test_goes_on_where_a_handler_wants_to_end_it(self) -> None:
        publish("exit")
        publish("a", 1)
        with running("command.exits", "command.first") as process:
            eventually(lambda: Message.objects.dead().exists(), within=30)
            publish("a", 2)
            eventually(lambda: Message.objects.filter(channel="seen").count() == 2)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

    def test_rebuilds_a_group_though_its_process_is_killed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def said(channel: str) -> list[Any]:
            found = Message.objects.filter(channel=channel).values_list("payload", flat=True)
            return sorted(found)

        publish_many([("rebuilt", n) for n in range(10)])
        monkeypatch.setenv("ENDS_A_REBUILD", "yes")
        with running("command.rebuilt") as process:
            eventually(lambda: said("live") == [*range(10)], within=30)
            with running("command.rebuilt", verb="rebuild") as beginning:
                assert beginning.wait(30) == 0
            assert process.wait(30) == 9
        assert position("command.rebuilt:rebuild") == 5
        monkeypatch.delenv("ENDS_A_REBUILD")
        # The leases of the process are over.
        Cursor.objects.update(lease_until=timezone.now())
        publish_many([("rebuilt", n) for n in range(10, 20)])

        with running("command.rebuilt") as process:
            eventually(lambda: position("command.rebuilt") == 20, within=30)
            eventually(lambda: Group.objects.count() == 1, within=30)
            publish("rebuilt", 20)
            eventually(lambda: said("live") == [*range(21)], within=30)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        assert said("old")[:10] == [*range(10)]
        assert said("next") == []

    @pytest.mark.parametrize(
        ("topic", "group"),
        [("fork", "command.forking"), ("fork.many", "command.forking.many")],
    )
    def test_a_child_of_a_handler_neither_reads_on_nor_ends_its_parents_session(
        self, topic: str, group: str
    ) -> None:
        publish_many([(topic, "return"), (topic, "raise")])
        with running(group) as process:
            eventually(lambda: Message.objects.count() == 2, within=30)
            publish(topic, "return")
            eventually(lambda: Message.objects.count() == 3)
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0

        said = [each.payload for each in Message.objects.order_by("pk")]
        assert said == [["return", 0], ["raise", 1], ["return", 0]]
        assert position(group) == 3
        assert set(Cursor.objects.values_list("failures", flat=True)) == {0}


@dataclass
class EndsLate:
    """A reader that ends at the third look, and a clock of its host that jumps at each."""

    clock: time_machine.Traveller
    looks: int = 0
    is_excused: bool = False

    def is_alive(self) -> bool:
        return self.looks < 3

    def stop(self) -> None:
        pass

    def stopped(self, within: timedelta) -> None:
        self.looks += 1
        self.clock.shift(timedelta(hours=1))

    def excuse(self) -> None:
        self.is_excused = True


def test_a_reader_has_its_whole_grace_though_the_clock_jumps() -> None:
    with time_machine.travel(time.time(), tick=True) as clock:
        reader: Any = EndsLate(clock)

        _stop([reader], Mock(count=1))

    assert not reader.is_excused
