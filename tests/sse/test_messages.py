"""Streams of one message: what happens to it, until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from pgqueue import receive, send
from pgqueue.engine.wait import MessageSnapshot
from pgqueue.models import History, Message, Waiter
from pgqueue.sse import message_stream
from pgqueue.sse.progress import ProgressFeed, changes
from pgqueue.streams import source
from tests import jobs
from tests.eventually import eventually
from tests.sse.serving import Stream

Open = Callable[..., Stream]


def seen(
    state: str, attempt: int = 0, failures: int = 0, progress: str | None = None
) -> MessageSnapshot:
    return MessageSnapshot(1, state, attempt, failures, progress, None)


@pytest.mark.parametrize(
    ("before", "now", "events"),
    [
        (None, seen("ready"), ["waiting"]),
        (None, seen("scheduled", 1, 1), ["waiting"]),
        (None, seen("running", 1), ["started"]),
        (None, seen("dead", 1, 1), ["ended"]),
        (seen("ready"), seen("ready"), []),
        (seen("ready"), seen("running", 1), ["started"]),
        (seen("running", 1), seen("running", 1, 0, "1"), ["progress"]),
        (seen("running", 1), seen("scheduled", 1, 1), ["retried"]),
        (seen("running", 1), seen("scheduled", 1, 0, "1"), ["waiting", "progress"]),
        (seen("ready"), seen("scheduled", 1, 1), ["started", "retried"]),
        (seen("running", 1), seen("running", 2, 1), ["retried", "started"]),
        (seen("scheduled", 1, 1), seen("running", 2, 1), ["started"]),
        (seen("running", 1), seen("succeeded", 1), ["ended"]),
        (seen("ready"), seen("succeeded", 1), ["started", "ended"]),
        (seen("running", 1), seen("succeeded", 2, 1), ["retried", "started", "ended"]),
        (seen("running", 1), seen("dead", 1, 1), ["ended"]),
        (seen("ready"), seen("dead", 1, 1), ["started", "ended"]),
        (seen("ready"), seen("cancelled"), ["ended"]),
        (seen("ready"), seen("gone"), ["ended"]),
    ],
)
def test_what_has_happened_between_two_looks(
    before: MessageSnapshot | None, now: MessageSnapshot, events: list[str]
) -> None:
    assert changes(before, now) == events


def names(stream: Stream) -> list[str]:
    return [each.event for each in stream.events]


def tells(stream: Stream, *expected: str) -> None:
    """Wait until just these have come."""
    eventually(lambda: len(stream.events) >= len(expected), what=f"came: {stream.blocks}")
    assert names(stream) == list(expected)


class TestAMessage:
    def test_is_followed_through_each_of_its_runs_until_it_ends(self, open_stream: Open) -> None:
        id = send("by hand", {"to": 1})
        stream = open_stream(f"/messages/{id}/")
        tells(stream, "waiting")

        with receive("by hand", limit=1) as receiver:
            [delivery] = receiver.take()
            tells(stream, "waiting", "started")
            delivery.checkpoint(progress={"done": 7})
            tells(stream, "waiting", "started", "progress")
            delivery.retry(0)
            tells(stream, "waiting", "started", "progress", "retried")
            [delivery] = eventually(receiver.take)
            tells(stream, "waiting", "started", "progress", "retried", "started")
            delivery.complete()

        stream.ends()
        assert names(stream)[5:] == ["ended"]
        told = [each.data for each in stream.events]
        assert told[2] == {
            "id": str(id),
            "status": "running",
            "attempt": 1,
            "failures": 0,
            "progress": {"done": 7},
        }
        assert told[3]["failures"] == 1
        assert (told[5]["status"], told[5]["attempt"], told[5]["result"]) == ("succeeded", 2, None)

    def test_that_has_ended_is_told_of_once(self, open_stream: Open) -> None:
        result = jobs.add.enqueue(1)
        result.cancel()

        first = open_stream(f"/messages/{result.id}/")
        first.ends()

        assert [each.data["status"] for each in first.events] == ["cancelled"]
        again = open_stream(f"/messages/{result.id}/", Last_Event_ID=first.last_id)
        # So a browser does not come back.
        assert (first.last_id, again.response.status) == ("ended", 204)

    def test_whose_history_is_removed_has_ended(self, open_stream: Open) -> None:
        result = jobs.add.enqueue(1)
        stream = open_stream(f"/messages/{result.id}/")
        tells(stream, "waiting")

        Message.objects.all().delete()

        stream.ends()
        assert stream.events[-1].data["status"] == "gone"
        assert not History.objects.exists()

    def test_is_looked_at_for_all_its_pages_at_once_and_no_longer_than_they_are_open(
        self, open_stream: Open
    ) -> None:
        ids = [jobs.add.enqueue(n).id for n in range(3)]
        streams = [open_stream(f"/messages/{id}/") for id in ids * 2]
        for each in streams:
            tells(each, "waiting")

        [progress] = [each for each in source._open.values() if isinstance(each, ProgressFeed)]
        eventually(lambda: Waiter.objects.count() == 3)
        for each in streams:
            each.leave()

        eventually(lambda: not progress.is_alive())
        eventually(lambda: not Waiter.objects.exists())

    @pytest.mark.parametrize(("key", "status"), [("ada", 200), ("bob", 404)])
    def test_is_for_those_whom_the_project_allows_it(
        self, open_stream: Open, key: str, status: int
    ) -> None:
        id = send("by hand", {}, key="ada")

        stream = open_stream(f"/keys/{id}/", {"key": key})

        assert stream.response.status == status

    @pytest.mark.parametrize(
        ("path", "status"),
        [("async", 200), ("nothing", 404), ("elsewhere", 401), ("undecided", 500)],
    )
    def test_is_sent_where_the_answer_is_true_and_nowhere_else(
        self, open_stream: Open, path: str, status: int
    ) -> None:
        id = send("by hand", {})

        assert open_stream(f"/{path}/{id}/").response.status == status

    def test_is_for_nobody_unless_the_project_says_so(self, open_stream: Open) -> None:
        assert open_stream(f"/no-messages/{send('by hand', {})}/").response.status == 403

    def test_that_one_may_not_see_is_answered_as_one_that_is_not_there(
        self, open_stream: Open
    ) -> None:
        id = send("by hand", {}, key="ada")

        hidden, none = (
            open_stream(f"/keys/{each}/", {"key": "bob"}).response for each in (id, id + 1000)
        )

        assert (hidden.status, hidden.read()) == (none.status, none.read())
        assert sorted(hidden.headers) == sorted(none.headers)

    def test_whose_metadata_python_does_not_read_is_shown_to_nobody(
        self, open_stream: Open
    ) -> None:
        id = send("by hand", {})
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pgqueue_message SET metadata = jsonb_build_object('n', 10::numeric ^ 5000)"
            )

        assert open_stream(f"/messages/{id}/").response.status == 404

    @pytest.mark.parametrize("id", [0, 2**63, 10**40])
    def test_that_is_not_there_is_not_found(self, open_stream: Open, id: int) -> None:
        assert open_stream(f"/messages/{id}/").response.status == 404


@pytest.mark.parametrize("options", [{"authorize": "x"}, {"heartbeat": -1}, {"database": "nope"}])
def test_what_can_not_be_is_refused_as_the_view_is_made(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        message_stream(**options)
