"""`manage.py pgqueue_flows`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pgqueue.engine import flows, overview
from pgqueue.models import Flow
from tests import stored_flows
from tests.factories import Connection
from tests.management.calling import call
from tests.stored_flows import Member

KEYS = {
    *("id", "name", "created_at", "ended_at", "done", "failed", "running", "ready", "waiting"),
    "stopped",
}
NOW = datetime.now(UTC)


def listed(*words: str) -> list[str]:
    return [each["name"] for each in call("pgqueue_flows", *words, "--format=json").objects]


@pytest.fixture
def some(queue: Connection) -> None:
    """Three flows: one goes on, one is stopped by a dead message, one has ended."""
    members = [Member("a", "succeeded"), Member("b", "ready"), Member("c", "held", (0, 1))]
    stored_flows.store("goes on", [*members, Member("d", "running")], at=NOW)
    dead = [Member("a", "dead"), Member("b", "held", (0,)), Member("c", "cancelled")]
    stored_flows.store("stopped", dead, at=NOW - timedelta(minutes=1))
    stored_flows.store("over", [Member("a", "succeeded")], at=NOW - timedelta(minutes=2))
    flows.end(queue)


@pytest.mark.usefixtures("some")
class TestFlows:
    def test_are_listed_with_how_many_messages_are_where(self) -> None:
        found = {each["name"]: each for each in call("pgqueue_flows", "--format=json").objects}

        counts = {
            name: [each[word] for word in ("done", "failed", "running", "ready", "waiting")]
            for name, each in found.items()
        }
        assert counts == {"goes on": [1, 0, 1, 1, 1], "stopped": [0, 2, 0, 0, 1],
                          "over": [1, 0, 0, 0, 0]}  # fmt: skip
        assert all(set(each) == KEYS for each in found.values())
        assert [name for name, each in found.items() if each["stopped"]] == ["stopped"]
        assert [name for name, each in found.items() if each["ended_at"]] == ["over"]
        assert found["over"]["created_at"].endswith("+00:00")

    def test_are_the_newest_first_or_the_oldest_of_those_that_live(self) -> None:
        assert listed() == ["over", "stopped", "goes on"], "by id"
        assert listed("--state=living") == ["stopped", "goes on"], "by when they were stored"

    def test_are_narrowed_by_their_state(self) -> None:
        assert listed("--state=ended") == ["over"]
        assert listed("--state=stopped") == ["stopped"]

    def test_are_as_many_as_the_limit_at_most_and_then_it_says_so(self) -> None:
        for state in ([], ["--state=living"]):
            cut = call("pgqueue_flows", *state, "--limit=1")
            assert len(cut.lines) == 2
            assert "There may be more: --limit" in cut.err
        assert call("pgqueue_flows", "--limit=3").err == ""
        assert call("pgqueue_flows", "--state=stopped", "--limit=1").err == ""

    def test_have_a_line_each_for_people(self) -> None:
        head, *lines = call("pgqueue_flows").lines

        assert head.split() == [
            *("id", "name", "created", "done", "failed", "running", "ready", "waiting")
        ]
        assert [line.split()[-1] for line in lines] == ["ended", "stopped", "1"]


def test_more_that_are_stopped_than_the_overview_shows_are_listed(queue: Connection) -> None:
    count = overview.STOPPED_FLOWS + 2
    for age in range(count):
        stored_flows.store(f"f{age}", [Member("a", "dead")], at=NOW - timedelta(minutes=age))

    assert listed("--state=stopped", "--limit=100") == [f"f{age}" for age in reversed(range(count))]
    assert "There may be more" in call("pgqueue_flows", "--state=stopped", "--limit=26").err


def test_where_there_are_none_it_says_so(queue: Connection) -> None:
    assert not Flow.objects.exists()
    assert call("pgqueue_flows").out == "No flows.\n"
    assert listed() == []
