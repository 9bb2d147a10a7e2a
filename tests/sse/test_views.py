"""Streams of events: what is sent to whom, and what a client that comes back is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import AsyncClient, Client

from pgqueue.engine import identity, predicates
from pgqueue.events.publishing import publish, publish_many
from pgqueue.events.reading import read
from pgqueue.sse import event_stream
from tests.damage import damaged_events
from tests.eventually import eventually
from tests.factories import Connection, drop
from tests.sse.serving import Stream, clients, feeds, process

pytestmark = pytest.mark.slow

Open = Callable[..., Stream]


def raise_floor(connection: Connection, floor: int) -> None:
    with connection.transaction():
        connection.execute("DELETE FROM pgqueue_event WHERE position <= %s", [floor])
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s)", [floor]
        )


def sessions_of_django(connection: Connection) -> set[int]:
    return {
        pid
        for (pid,) in connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
            "AND application_name NOT LIKE '%pgqueue %' AND backend_type = 'client backend'"
        )
    }


def end_sessions(connection: Connection) -> None:
    """End the feed's sessions."""
    connection.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE '%pgqueue sse%'"
    )


def of(stream: Stream) -> list[tuple[str, str | None]]:
    """Return the names and ids of the events that have come."""
    return [(each.event, each.id) for each in stream.events]


class TestAConditionInSQL:
    @pytest.fixture(autouse=True)
    def _nothing_is_known(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(predicates, "_checked", set())

    def test_lets_the_events_through_that_meet_it(self, open_stream: Open) -> None:
        stream = open_stream("/even/").begins()
        narrow = open_stream("/even/", {"topic": "b", "where": '{"n__gt": 2}'}).begins()

        publish_many([(topic, {"n": n}) for topic in "ab" for n in range(1, 5)])

        stream.sees(*({"n": n} for n in (2, 4, 2, 4)))
        narrow.sees({"n": 4})

    def test_is_met_by_the_missed_events_too(self, open_stream: Open) -> None:
        first = open_stream("/even/").begins()
        publish("a", {"n": 2})
        first.sees({"n": 2})
        first.leave()
        publish_many([("a", {"n": n}) for n in (3, 4)])

        again = open_stream("/even/", {"last_event_id": "1"})

        again.sees({"n": 4})

    def test_that_fails_ends_its_streams_alone(self, open_stream: Open) -> None:
        failing, other = open_stream("/failing/").begins(), open_stream("/events/").begins()

        publish_many([("a", {"n": n}) for n in (0, 1)])

        other.sees({"n": 0}, {"n": 1})
        failing.ends()

    def test_that_fails_with_a_missed_event_is_told_by_a_reset(self, open_stream: Open) -> None:
        publish_many([("a", {"n": n}) for n in (1, 0)])
        read()  # gives positions

        failing = open_stream("/failing/", Last_Event_ID="0").begins()

        assert [each.data["reason"] for each in failing.events] == ["unreadable"]

    def test_that_is_forbidden_is_an_error_of_the_server(self, open_stream: Open) -> None:
        assert open_stream("/forbidden/").response.status == 500


class TestAnEventThatCanNotBeRead:
    @pytest.fixture(autouse=True)
    def damaged(self, connection: Connection) -> Iterator[None]:
        with damaged_events(connection):
            connection.execute(
                "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "NEW.created_at = 'infinity'; RETURN NEW; END $$"
            )
            try:
                connection.execute(
                    "CREATE TRIGGER spoil BEFORE INSERT ON pgqueue_event FOR EACH ROW "
                    "WHEN (NEW.topic = 'spoilt') EXECUTE FUNCTION spoil()"
                )
                yield
            finally:
                drop(connection, "spoil")

    def test_is_named_in_the_log_and_told_by_a_reset(
        self, open_stream: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        stream = open_stream().begins()

        publish_many([("a", 1), ("spoilt", 2), ("a", 3), ("spoilt", 4), ("a", 5)])

        eventually(lambda: len(stream.events) == 5, what="events and resets came")
        assert [each.data.get("payload") for each in stream.events] == [1, None, 3, None, 5]
        resets = [each.data for each in stream.events if each.event == "pgqueue.reset"]
        assert [each["reason"] for each in resets] == ["unreadable"] * 2
        assert [each["position"] for each in resets] == [2, 4]
        assert "pgqueue_event at 2" in caplog.text
        assert "pgqueue_event at 4" in caplog.text

    def test_among_the_missed_ones_is_told_by_a_reset(
        self, open_stream: Open, caplog: pytest.LogCaptureFixture
    ) -> None:
        publish_many([("a", 1), ("spoilt", 2), ("a", 3)])
        read(limit=1)  # gives positions

        stream = open_stream(Last_Event_ID="0").begins()
        publish("a", 4)

        eventually(lambda: len(stream.events) >= 2, what="the reset and a new event came")
        reset, new = stream.events
        assert (reset.data["reason"], reset.data["position"]) == ("unreadable", 3)
        assert new.data["payload"] == 4
        assert "sse catching up" in caplog.text


class TestAStream:
    def test_sends_what_comes_named_by_topic_and_numbered_by_position(
        self, open_stream: Open
    ) -> None:
        publish("order.placed", {"n": 0})
        stream = open_stream().begins()

        publish("order.placed", {"n": 1}, key="customer:7")
        publish("order.paid", None)

        stream.sees({"n": 1}, None)
        assert of(stream) == [("order.placed", "2"), ("order.paid", "3")]
        told = stream.events[0].data
        assert (told["position"], told["topic"], told["key"]) == (2, "order.placed", "customer:7")
        assert told.keys() == {"position", "topic", "key", "created_at", "payload"}

    def test_says_from_where_on_it_sends_all(self, open_stream: Open) -> None:
        publish_many([("a", 1), ("a", 2)])

        stream = open_stream(Last_Event_ID="1").begins()

        first, ready = [each for each in stream.blocks if each.data]
        assert (first.data["payload"], ready.data, ready.id) == (2, {"position": 2}, "2")

    def test_says_that_it_is_one_and_is_not_to_be_kept(self, open_stream: Open) -> None:
        stream = open_stream(Accept_Encoding="gzip").begins()

        headers = stream.response.headers
        assert headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert (headers["Cache-Control"], headers["X-Accel-Buffering"]) == ("no-cache", "no")
        assert headers["Content-Encoding"] is None
        assert 1000 <= int(stream.blocks[0].fields["retry"]) < 3000

    def test_is_not_compressed_by_a_middleware(
        self, settings: Any, request: pytest.FixtureRequest
    ) -> None:
        # Which would wait for more.
        settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware", *settings.MIDDLEWARE]

        stream = request.getfixturevalue("open_stream")(Accept_Encoding="gzip").begins()
        publish("a", 1)

        stream.sees(1)

    def test_sends_only_what_topics_and_conditions_say(self, open_stream: Open) -> None:
        query = {"topic": ["order.*", "cart.left"], "where": '{"n__gte": 2}'}
        stream = open_stream("/events/", query).begins()
        other = open_stream().begins()

        publish_many([("order.paid", {"n": n}) for n in range(4)])
        publish_many([("mail.sent", {"n": 9}), ("cart.left", {"n": 5}), ("order.a.b", {"n": 6})])

        stream.sees({"n": 2}, {"n": 3}, {"n": 5})
        eventually(lambda: len(other.events) == 7)

    def test_sends_a_text_of_several_lines_as_it_is(self, open_stream: Open) -> None:
        stream = open_stream().begins()

        publish("a", "one\ntwo\r\nthree\rfour \u2028 \x85 \U0001f600")

        stream.sees("one\ntwo\r\nthree\rfour \u2028 \x85 \U0001f600")

    def test_that_is_silent_is_sent_heartbeats_that_say_how_far_it_is(
        self, open_stream: Open
    ) -> None:
        stream = open_stream("/brief/", {"topic": "b"}).begins()
        publish_many([("a", n) for n in range(5)])
        publish("b", 1)
        stream.sees(1)
        publish_many([("a", n) for n in range(5)])

        eventually(lambda: stream.last_id == "11", what="it knows of what it does not want")
        assert len(stream.events) == 1

    @pytest.mark.django_db(databases=["default", "second"], transaction=True)
    def test_of_another_database_is_of_that(self, open_stream: Open) -> None:
        stream = open_stream("/second/").begins()

        publish("a", 1)
        publish("a", 2, database="second")

        stream.sees(2)


class TestManyStreams:
    def test_are_fed_by_one_reader_on_few_connections(
        self, open_stream: Open, connection: Connection
    ) -> None:
        streams = [open_stream("/events/", {"topic": f"t{n % 3}.*"}) for n in range(12)]
        for each in streams:
            each.begins()

        publish_many([(f"t{n}.a", n) for n in range(3)])

        for number, each in enumerate(streams):
            each.sees(number % 3)

        def sessions() -> int:
            [(count,)] = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE '%pgqueue %' "
                "AND application_name NOT SIMILAR TO '%pgqueue (test|broom)'"
            ).fetchall()
            return int(count)

        # Eventually: a session of the test before may still be ending.
        eventually(lambda: sessions() == 2)
        assert (len(feeds()), clients()) == (1, 12)

    def test_end_their_reader_as_the_last_one_leaves(self, open_stream: Open) -> None:
        streams = [open_stream().begins() for _ in range(3)]
        [feed] = feeds()

        for each in streams:
            each.leave()

        eventually(lambda: clients() == 0)
        eventually(lambda: not feed.is_alive())
        assert feeds() == []
        publish("a", 1)
        again = open_stream().begins()
        publish("a", 2)
        again.sees(2)

    def test_of_pages_with_a_session_keep_no_connection_or_thread_each(
        self, open_stream: Open, connection: Connection
    ) -> None:
        user = User.objects.create_user("ada", is_staff=True)
        client = Client()
        client.force_login(user)
        cookie = f"sessionid={client.cookies['sessionid'].value}"
        # The thread that all of them share may keep its connection for the next request.
        open_stream("/staff/", Cookie=cookie).begins()
        before = sessions_of_django(connection)

        for _ in range(5):
            open_stream("/staff/", Cookie=cookie).begins()

        eventually(
            lambda: sessions_of_django(connection) <= before,
            what="the sessions of these pages have ended",
        )


class TestComingBack:
    def test_brings_what_was_missed_and_then_what_comes(self, open_stream: Open) -> None:
        publish_many([("a", n) for n in range(1, 6)])

        stream = open_stream(Last_Event_ID="2")
        stream.sees(3, 4, 5)
        publish("a", 6)

        stream.sees(3, 4, 5, 6)
        assert of(stream) == [("a", str(n)) for n in range(3, 7)]

    def test_works_by_the_address_too_but_the_header_is_newer(self, open_stream: Open) -> None:
        publish_many([("a", n) for n in range(1, 6)])

        by_address = open_stream("/events/", {"last_event_id": "3"})
        by_both = open_stream("/events/", {"last_event_id": "1"}, Last_Event_ID="4")

        by_address.sees(4, 5)
        by_both.sees(5)

    def test_brings_only_what_it_wants(self, open_stream: Open) -> None:
        publish_many([("a", n) for n in range(1, 6)] + [("b", n) for n in range(6, 9)])

        query = {"topic": "b", "where": '{"n__gte": 7}'}
        publish_many([("b", {"n": n}) for n in range(5, 9)])

        open_stream("/events/", query, Last_Event_ID="1").sees({"n": 7}, {"n": 8})

    def test_amid_many_events_leaves_none_out_and_repeats_none(self, open_stream: Open) -> None:
        first = open_stream().begins()
        for start in range(0, 300, 30):
            publish_many([("a", n) for n in range(start, start + 30)])
            stream = open_stream(Last_Event_ID=str(start // 2))
            stream.begins()
            last = stream
        eventually(lambda: len(first.events) == 300)
        eventually(lambda: last.last_id == "300", what="the last one has all")

        assert [each.id for each in last.events] == [str(n) for n in range(136, 301)]

    def test_while_others_publish_leaves_none_out_and_repeats_none(self, open_stream: Open) -> None:
        publish("a", 0)
        published = threading.Event()

        def publish_all() -> None:
            for number in range(600):
                publish("a", number)
            published.set()
            connections.close_all()

        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(publish_all)
            streams = []
            while not published.is_set():
                streams.append(open_stream(Last_Event_ID="1").begins())
            done.result()

        for each in streams:
            eventually(lambda stream=each: stream.last_id == "601")
            assert [event.id for event in each.events] == [str(n) for n in range(2, 602)]

    @pytest.mark.parametrize(
        "sent",
        ["abc", "-1", "1.5", "٣", pytest.param("9" * 5000, id="too large"), "1 "],
    )
    def test_with_what_is_no_position_is_told_so(self, open_stream: Open, sent: str) -> None:
        publish_many([("a", 1), ("a", 2)])
        stream = open_stream("/events/", {"last_event_id": sent})
        stream.begins()
        publish("a", 3)

        eventually(lambda: len(stream.events) == 2)
        reset, event = stream.events
        assert (reset.event, reset.id, event.data["payload"]) == ("pgqueue.reset", "2", 3)
        assert reset.data["reason"] in ("invalid", "ahead")
        assert sent.startswith(reset.data["last_event_id"])
        assert reset.data["position"] == 2

    def test_with_more_than_there_is_is_told_so(self, open_stream: Open) -> None:
        publish_many([("a", 1), ("a", 2)])

        stream = open_stream(Last_Event_ID="3").begins()

        assert [each.data["reason"] for each in stream.events] == ["ahead"]
        assert stream.last_id == "2"

    def test_below_the_floor_is_told_so(self, open_stream: Open, connection: Connection) -> None:
        publish_many([("a", n) for n in range(5)])
        open_stream(Last_Event_ID="0").begins()
        raise_floor(connection, 3)

        stream = open_stream(Last_Event_ID="2").begins()
        other = open_stream(Last_Event_ID="3").begins()

        assert [each.data["reason"] for each in stream.events] == ["removed"]
        assert other.payloads() == [3, 4]

    def test_having_missed_too_many_is_told_so(self, open_stream: Open) -> None:
        publish_many([("a", n) for n in range(1, 5)])

        some = open_stream("/few/", Last_Event_ID="1").begins()
        too_many = open_stream("/few/", Last_Event_ID="0").begins()
        publish("a", 5)

        some.sees(2, 3, 4, 5)
        eventually(lambda: len(too_many.events) == 2)
        assert too_many.events[0].data["reason"] == "too_many"
        assert too_many.events[1].data["payload"] == 5

    def test_counts_only_what_it_wants(self, open_stream: Open) -> None:
        publish_many([("a", n) for n in range(1, 50)] + [("b", n) for n in range(3)])

        open_stream("/few/", {"topic": "b"}, Last_Event_ID="0").sees(0, 1, 2)

    def test_after_too_long_is_told_so(self, open_stream: Open, connection: Connection) -> None:
        publish_many([("a", n) for n in range(1, 4)])
        open_stream().begins()
        connection.execute(
            "UPDATE pgqueue_event SET created_at = created_at - interval '2 min' "
            "WHERE position <= 2"
        )

        old = open_stream("/young/", Last_Event_ID="1").begins()
        young = open_stream("/young/", Last_Event_ID="2")
        idle = open_stream("/young/", Last_Event_ID="3").begins()

        assert [each.data["reason"] for each in old.events] == ["too_old"]
        young.sees(3)
        assert idle.events == []

    def test_from_a_process_that_was_ahead_of_this_one_repeats_nothing(
        self, open_stream: Open, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = open_stream().begins()
        [feed] = feeds()
        real, may_go_on = feed._pass_on, threading.Event()
        # As a process that is slower than others.
        monkeypatch.setattr(feed, "_pass_on", lambda session: may_go_on.is_set() and real(session))
        publish_many([("a", 1), ("a", 2)])
        second = open_stream(Last_Event_ID="2")
        eventually(lambda: feed._coming)

        may_go_on.set()
        feed.wake()
        second.begins()
        publish("a", 3)

        second.sees(3)
        first.sees(1, 2, 3)


class TestAnotherLog:
    """The id of an event of one log means nothing in another."""

    def test_with_the_same_id_it_goes_on(self, open_stream: Open) -> None:
        first = open_stream().begins()
        publish_many([("a", 1), ("a", 2)])
        first.sees(1, 2)
        seen = first.whole_id
        publish("a", 3)

        stream = open_stream(Last_Event_ID=seen)

        assert seen.startswith("2-")
        stream.sees(3)

    def test_restored_that_has_caught_up_is_told(
        self, open_stream: Open, connection: Connection
    ) -> None:
        first = open_stream().begins()
        publish_many([("a", 1), ("a", 2)])
        first.sees(1, 2)
        seen = first.whole_id
        connection.execute("DELETE FROM pgqueue_event WHERE position = 2")
        publish_many([("a", 3), ("a", 4)])

        stream = open_stream(Last_Event_ID=seen).begins()

        assert stream.events[0].data.get("reason") == "restored"

    def test_of_a_heartbeat_that_has_caught_up_is_told(
        self, open_stream: Open, connection: Connection
    ) -> None:
        publish_many([("a", 1), ("a", 2)])
        first = open_stream("/brief/", {"topic": "b"}).begins()
        publish("a", 3)
        eventually(lambda: first.last_id == "3", what="a heartbeat")
        seen = first.whole_id
        connection.execute("DELETE FROM pgqueue_event WHERE position = 3")
        publish_many([("a", 4), ("a", 5)])

        stream = open_stream(Last_Event_ID=seen).begins()

        assert stream.events[0].data.get("reason") == "restored"

    def test_restored_that_is_told_of_resets_all(
        self, open_stream: Open, connection: Connection
    ) -> None:
        publish("a", 1)
        first = open_stream().begins()
        seen = first.whole_id
        identity.renew(connection)

        stream = open_stream(Last_Event_ID=seen).begins()
        assert stream.events[0].data.get("reason") == "restored"
        again = open_stream(Last_Event_ID=stream.whole_id).begins()
        assert again.events == []

    def test_whose_event_retention_has_removed_goes_on(
        self, open_stream: Open, connection: Connection
    ) -> None:
        first = open_stream().begins()
        publish_many([("a", 1), ("a", 2)])
        first.sees(1, 2)
        seen = first.whole_id
        publish("a", 3)
        first.sees(1, 2, 3)
        raise_floor(connection, 2)

        open_stream(Last_Event_ID=seen).sees(3)

    @pytest.mark.parametrize("losses", [0, 1, 2])
    def test_that_a_server_comes_back_to_resets_its_streams(
        self, open_stream: Open, connection: Connection, losses: int
    ) -> None:
        stream = open_stream().begins()
        publish_many([("a", 1), ("a", 2)])
        stream.sees(1, 2)
        [feed] = feeds()
        eventually(lambda: feed._told == 2)
        for _ in range(losses):
            known = feed._known
            end_sessions(connection)
            feed.wake()
            eventually(lambda known=known: feed._known is not known)
        with connection.transaction():
            connection.execute("UPDATE pgqueue_event SET created_at = created_at - '1s'::interval")
        end_sessions(connection)

        eventually(lambda: len(stream.events) == 3)
        assert stream.events[2].data["reason"] == "restored"


class TestALog:
    def test_that_is_restored_from_a_backup_resets_its_streams(
        self, open_stream: Open, connection: Connection
    ) -> None:
        publish_many([("a", n) for n in range(5)])
        stream = open_stream().begins()

        connection.execute("DELETE FROM pgqueue_event WHERE position > 2")
        eventually(lambda: stream.events, what="it is told")
        publish("a", 9)

        eventually(lambda: len(stream.events) == 2)
        assert stream.events[0].data["reason"] == "ahead"
        assert (stream.events[1].data["payload"], stream.last_id) == (9, "3")

    def test_whose_connections_are_lost_loses_nothing(
        self, open_stream: Open, connection: Connection
    ) -> None:
        stream = open_stream().begins()
        for number in range(5):
            publish("a", number)
            stream.sees(*range(number + 1))
            end_sessions(connection)


class TestWhoMaySee:
    @pytest.mark.parametrize("path", ["/nobody/", "/staff/", "/nothing/"])
    def test_is_nobody_unless_the_project_says_so(self, open_stream: Open, path: str) -> None:
        assert open_stream(path).response.status == 403
        assert feeds() == []

    @pytest.mark.parametrize("path", ["/async/", "/wrapped/"])
    def test_may_be_an_async_function_s_matter(self, open_stream: Open, path: str) -> None:
        stream = open_stream(path).begins()
        publish("a", 1)
        stream.sees(1)

    def test_may_be_less_than_what_is_asked_for(self, open_stream: Open) -> None:
        stream = open_stream("/own/", {"user": "7", "topic": "a"}).begins()

        publish_many([("a", {"user": 8}), ("a", {"user": 7, "n": 1}), ("b", {"user": 7})])
        publish("a", {"user": 7, "n": 2})

        stream.sees({"user": 7, "n": 1}, {"user": 7, "n": 2})

    def test_may_be_for_one_key(self, open_stream: Open) -> None:
        stream = open_stream("/key/", {"user": "7"}).begins()

        publish_many([("order.paid", 1, "8"), ("order.paid", 2, "7"), ("order.paid", 3)])
        publish_many([("cart.left", 4, "7"), ("order.sent", 5, "7")])

        stream.sees(2, 5)

    def test_is_never_more_than_what_is_asked_for(self, open_stream: Open) -> None:
        stream = open_stream("/too-much/", {"topic": "order.paid"}).begins()

        publish_many([(topic, {"user": 7, "total": 20}) for topic in ("order.sent", "cart.left")])
        publish_many([("order.paid", {"user": user, "total": 20}) for user in (7, 8)])
        publish_many([("order.paid", {"user": 7, "total": total}) for total in (5, 30)])

        stream.sees({"user": 7, "total": 20}, {"user": 7, "total": 30})

    @pytest.mark.parametrize("path", ["/own/", "/too-much/"])
    def test_is_not_who_asks_for_what_is_another_s(self, open_stream: Open, path: str) -> None:
        response = open_stream(path, {"user": "7", "where": '{"user": 8}'}).response

        assert (response.status, b"where['user']" in response.read()) == (400, True)

    def test_is_answered_as_the_project_likes(self, open_stream: Open) -> None:
        response = open_stream("/elsewhere/").response
        assert (response.status, response.read()) == (401, b"log in")

    def test_is_not_whom_an_unclear_answer_is_given(self, open_stream: Open) -> None:
        assert open_stream("/undecided/").response.status == 500

    def test_is_asked_within_what_a_view_offers(self, open_stream: Open) -> None:
        stream = open_stream("/orders/").begins()
        paid = open_stream("/orders/", {"topic": "order.paid", "where": '{"n": 1}'}).begins()

        publish_many([("order.paid", {"total": 5, "n": 1}), ("order.paid", {"total": 20, "n": 1})])
        publish_many([("cart.left", {"total": 50}), ("order.sent", {"total": 30})])

        stream.sees({"total": 20, "n": 1}, {"total": 30})
        paid.sees({"total": 20, "n": 1})
        for query in ({"topic": "**"}, {"topic": "cart.left"}, {"where": '{"total__gte": 1}'}):
            assert open_stream("/orders/", query).response.status == 400


class TestARequest:
    @pytest.mark.parametrize(
        ("query", "culprit"),
        [
            ({"topic": "a b"}, "a b"),
            ({"topic": ""}, "topics="),
            ({"topic": ["a"] * 51}, "topic"),
            ({"where": "{"}, "where"),
            ({"where": "[" * 2000}, "where"),
            ({"where": "[]"}, "where"),
            ({"where": '{"a": []}'}, "where['a']"),
            ({"where": '{"a": NaN}'}, "where['a']"),
            ({"where": '{"a": "\\u0000"}'}, "where['a']"),
            ({"where": '{"a": "\\ud800"}'}, "where['a']"),
            ({"where": f'{{"a": "{"x" * 2000}"}}'}, "where"),
        ],
    )
    def test_that_can_not_be_is_told_what_is_wrong(
        self, open_stream: Open, query: dict[str, Any], culprit: str
    ) -> None:
        response = open_stream("/events/", query).response

        assert response.status == 400
        assert culprit in response.read().decode()

    @pytest.mark.parametrize("method", ["post", "head", "put", "delete"])
    def test_of_another_method_is_refused(self, settings: Any, method: str) -> None:
        settings.ROOT_URLCONF = "tests.sse.urls"

        response = async_to_sync(getattr(AsyncClient(), method))("/events/")

        assert (response.status_code, response["Allow"]) == (405, "GET")

    def test_under_wsgi_says_that_asgi_is_needed(self, settings: Any) -> None:
        settings.ROOT_URLCONF = "tests.sse.urls"

        with pytest.raises(ImproperlyConfigured, match="ASGI"):
            Client().get("/events/")

    def test_that_no_server_streams_leaves_nothing_behind(self, settings: Any) -> None:
        settings.ROOT_URLCONF = "tests.sse.urls"

        response = async_to_sync(AsyncClient().get)("/events/")

        assert response.status_code == 200
        assert feeds() == []


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"authorize": True}, "authorize=True"),
        ({"topics": "a b"}, "topics="),
        ({"where": {"a": []}}, "where"),
        ({"predicate": 7}, "predicate=7"),
        ({"params": {"a": 1}}, "give predicate=, too"),
        ({"max_events": -1}, "max_events=-1"),
        ({"max_age": 0}, "max_age=0"),
        ({"heartbeat": "1"}, "heartbeat='1'"),
        ({"database": "nope"}, "database="),
    ],
)
def test_what_can_not_be_is_refused_as_the_view_is_made(
    options: dict[str, Any], culprit: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=culprit):
        event_stream(**options)


def test_a_server_that_stops_ends_its_streams() -> None:
    with process() as server:
        stream = Stream(server.port, "/events/").begins()

        server.stop()

        stream.ends()
        stream.leave()
