"""`manage.py pgqueue_list`."""

from __future__ import annotations

import shlex

import pytest
from django.core.management import CommandError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue.models import History, Message
from tests.factories import Connection, bury, ended, enqueue, insert, run, schedule
from tests.management.calling import Called, call

KEYS = {
    *("id", "state", "task", "channel", "key", "priority", "attempt", "failures", "max_attempts"),
    *("created_at", "run_at", "started_at", "finished_at", "worker", "error"),
}
ERROR = '[{"class": "shop.tasks.ForkliftStuck", "message": "It is\\nfree\\tagain soon, they say."}]'


def listed(*words: str) -> list[int]:
    return [each["id"] for each in call("pgqueue_list", *words, "--format=json").objects]


def rest(called: Called) -> list[str]:
    """Return the option that leads on, as a shell would read it."""
    return shlex.split(called.err.partition(": ")[2])


def test_the_newest_live_messages_come_first(queue: Connection) -> None:
    ids = enqueue(queue, 3)
    ended(queue, 2)

    assert listed() == ids[::-1]
    assert listed("--limit=2") == ids[:0:-1]


def test_an_object_has_the_keys_that_are_documented(queue: Connection) -> None:
    insert(queue, state="dead", errors=ERROR, failures=5)
    ended(queue)

    [live] = call("pgqueue_list", "--format=json").objects
    [past] = call("pgqueue_list", "--state=succeeded", "--format=json").objects

    assert set(live) == set(past) == KEYS
    assert live["error"]["class"] == "shop.tasks.ForkliftStuck"
    assert live["created_at"].endswith("+00:00")
    assert (past["state"], past["error"], past["worker"]) == ("succeeded", None, None)


def test_a_line_is_short_whatever_a_message_has(queue: Connection) -> None:
    insert(queue, state="dead", errors=ERROR, key="k" * 900, channel="c" * 200)

    head, line = call("pgqueue_list").lines

    assert head.split()[:3] == ["id", "state", "task"]
    assert "ForkliftStuck: It is free again soon, t…" in line
    assert len(line) < 260


def test_it_may_be_told_what_to_list(queue: Connection) -> None:
    [mail], [late] = enqueue(queue, channel="mail"), schedule(queue)
    [claim] = run(queue, channel="busy")
    [dead] = bury(queue, channel="other", key="a")

    assert listed("--channel=mail") == [mail]
    assert listed("--state=scheduled") == [late]
    assert listed("--state=running") == [claim.id]
    assert listed("--state=dead", "--channel=other", "--key=a", "--error=Oops") == [dead]
    assert call("pgqueue_list", "--state=held").out == "No messages.\n"


def test_the_messages_of_a_flow_are_listed_live_or_ended(queue: Connection) -> None:
    enqueue(queue, 2)
    ended(queue, 2)
    live, last, past = insert(queue, flow_id=7), insert(queue, flow_id=7, state="dead"), []
    for outcome in ("succeeded", "succeeded", "expired"):
        ended(queue, outcome=outcome)
        past.append(History.objects.latest("id").pk)
    History.objects.filter(pk__in=past).update(flow_id=7)

    assert listed("--flow=7") == [last, live]
    assert listed("--flow=7", "--state=dead") == [last]
    assert listed("--flow=7", "--state=ended") == past[::-1]
    assert listed("--flow=7", "--state=succeeded") == past[1::-1]
    cut = call("pgqueue_list", "--flow=7", "--state=ended", "--limit=2")
    assert cut.err == "There may be more: --limit\n"
    assert listed("--flow=8") == []


def test_what_has_ended_is_listed_by_its_outcome(queue: Connection) -> None:
    ended(queue, 2)
    ended(queue, outcome="expired", channel="mail")
    enqueue(queue)

    assert len(listed("--state=ended")) == 3
    assert len(listed("--state=succeeded")) == 2
    assert len(listed("--state=expired", "--channel=mail")) == 1
    assert "20" in call("pgqueue_list", "--state=expired").lines[1]


@pytest.mark.parametrize("words", [[], ["--state=ready"], ["--state=dead"], ["--task=tests.task"]])
def test_it_leads_on_to_every_message_and_shows_each_once(
    queue: Connection, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.listing.index.STRETCH", 5)
    monkeypatch.setattr("pgqueue.listing.index.REACH", 4)
    for governed, ordered in ((False, False), (True, False), (True, True)):
        for _ in range(4):
            insert(queue, governed=governed, ordered=ordered)
    bury(queue, 6, channel="mail")
    expected = Message.objects.all()
    if words and words[0].startswith("--state"):
        expected = expected.filter(state=words[0].partition("=")[2])

    found, place = list[int](), list[str]()
    while True:
        called = call("pgqueue_list", *words, *place, "--limit=3", "--format=json")
        page = [each["id"] for each in called.objects]
        assert len(page) <= 3
        found += page
        if not called.err:
            break
        place = rest(called)

    assert sorted(found) == sorted(expected.values_list("pk", flat=True))


def test_it_stops_looking_after_a_while_and_leads_on(
    queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.listing.index.REACH", 4)
    monkeypatch.setattr("pgqueue.management.commands.pgqueue_list.LOOK_FOR", -1)
    rare = insert(queue, task="rare")
    enqueue(queue, 9)

    looks, place = 0, list[str]()
    while not (called := call("pgqueue_list", "--task=rare", *place, "--format=json")).objects:
        place, looks = rest(called), looks + 1

    assert looks == 2
    assert called.objects[0]["id"] == rare


def test_it_reads_no_payload(queue: Connection) -> None:
    enqueue(queue, 3)

    with CaptureQueriesContext(connection) as queries:
        listed()

    assert not [each for each in queries if "payload" in each["sql"]]


@pytest.mark.parametrize("place", ["7", "x:1", "9:", "0:nothing", '0:["a"]', "0:[1, 2]", "²:"])
def test_a_place_that_there_is_not_is_refused(queue: Connection, place: str) -> None:
    with pytest.raises(CommandError, match="is no place in this list") as raised:
        call("pgqueue_list", f"--start={place}")

    assert raised.value.returncode == 2
