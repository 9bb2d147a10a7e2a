"""A buffered publisher collects events, and loses none in an orderly end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest
from django.db import OperationalError, transaction

from pgqueue import BufferedPublisher, Event, InvalidEvent, PayloadTooLarge, read
from pgqueue.engine import publish as engine
from pgqueue.engine.publish import NewEvent
from pgqueue.events import buffering, publishing
from pgqueue.exceptions import TaskTimeout
from tests.eventually import eventually
from tests.processes import ROOT, environment

LONG = 3600.0


class Seen(Event, topic="page.seen", key="path"):
    """A typed event."""

    path: str


@pytest.fixture
def publisher() -> Iterator[BufferedPublisher]:
    """One that publishes only when it is asked to."""
    with BufferedPublisher(flush_every=LONG) as publisher:
        yield publisher


def payloads() -> list[Any]:
    return [event.payload for event in read()]


class StruckList(list[NewEvent]):
    """Events; a timeout strikes just after the first was added."""

    def append(self, event: NewEvent) -> None:
        super().append(event)
        if len(self) == 1:
            raise TaskTimeout


class Away:
    """Stands in for a database that is away until it is told to come back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: int | None = None) -> None:
        self.times = 0
        self.is_away = True
        publish_many = engine.publish_many

        def try_it(connection: Any, events: Any) -> None:
            self.times += 1
            if self.is_away and (fails is None or self.times <= fails):
                raise psycopg.OperationalError("the database is away")
            publish_many(connection, events)

        monkeypatch.setattr(engine, "publish_many", try_it)


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Away:
    return Away(monkeypatch)


class TestItPublishes:
    def test_at_a_flush_what_there_is_in_its_order(self, publisher: BufferedPublisher) -> None:
        publisher.publish("a", 1, key="k", metadata={"m": 1})
        publisher.publish(Seen(path="/"))
        assert payloads() == []

        publisher.flush()

        first, second = read()
        assert (first.topic, first.payload, first.key) == ("a", 1, "k")
        assert first.metadata == {"m": 1}
        assert second.as_event() == Seen(path="/")
        assert second.key == "/"
        publisher.flush()
        assert len(read()) == 2

    def test_a_while_after_the_first(self) -> None:
        with BufferedPublisher(flush_every=0.05) as publisher:
            for _ in range(2):
                publisher.publish("a", 1)
                eventually(payloads)

            assert eventually(lambda: payloads() == [1, 1])

    def test_though_a_timeout_has_struck_at_the_start_of_its_thread(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        start = buffering._Flusher.start

        def start_late(flusher: buffering._Flusher) -> None:
            monkeypatch.setattr(buffering._Flusher, "start", start)
            raise TaskTimeout

        monkeypatch.setattr(buffering._Flusher, "start", start_late)
        with BufferedPublisher(flush_every=0.1) as publisher:
            with pytest.raises(TaskTimeout):
                publisher.publish("page.seen", {"number": 1})
            publisher.publish("page.seen", {"number": 2})

            eventually(lambda: read())

    def test_though_a_timeout_has_struck_as_it_collected_the_first(self) -> None:
        with BufferedPublisher(flush_every=0.1) as publisher:
            publisher._events = StruckList()
            with pytest.raises(TaskTimeout):
                publisher.publish("a", 1)
            publisher.publish("a", 2)

            eventually(lambda: payloads() == [1, 2])

    def test_at_the_end_of_the_process_what_a_timeout_has_kept_a_close_from(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publisher = BufferedPublisher(flush_every=LONG)
        publisher.publish("a", 1)
        with monkeypatch.context() as struck:
            struck.setattr(publisher, "_flush_or_log", Mock(side_effect=TaskTimeout))
            with pytest.raises(TaskTimeout):
                publisher.close()

        publisher.close()  # as atexit does

        assert payloads() == [1]

    def test_as_soon_as_there_are_enough(self) -> None:
        with BufferedPublisher(flush_every=LONG, max_batch=3) as publisher:
            for n in range(3):
                publisher.publish("a", n)

            assert eventually(lambda: payloads() == [0, 1, 2])

    def test_in_batches(
        self, publisher: BufferedPublisher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        away = Away(monkeypatch, fails=0)
        for n in range(5):
            publisher.publish("a", n)
        publisher._most = 2

        publisher.flush()

        assert (away.times, payloads()) == (3, [0, 1, 2, 3, 4])

    def test_who_acts_as_it_is_collected(
        self, publisher: BufferedPublisher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as acting:
            acting.setattr(publishing, "acting", lambda: {"by": "a test"})
            publisher.publish("a")

        publisher.flush()

        assert read()[0].metadata == {"acting": {"by": "a test"}}

    def test_of_many_threads_each_once(self, publisher: BufferedPublisher) -> None:
        def work(who: int) -> None:
            for n in range(200):
                publisher.publish("a", [who, n])
                if n % 50 == 0:
                    publisher.flush()

        threads = [threading.Thread(target=work, args=[who]) for who in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        publisher.flush()

        found = payloads()
        assert len(found) == 800
        for who in range(4):
            assert [n for by, n in found if by == who] == list(range(200))

    def test_outside_of_the_transaction_in_which_it_is_flushed(
        self, publisher: BufferedPublisher
    ) -> None:
        with transaction.atomic():
            publisher.publish("a", 1)
            publisher.flush()
            transaction.set_rollback(True)

        assert payloads() == [1]

    def test_at_its_end(self) -> None:
        with BufferedPublisher(flush_every=LONG) as publisher:
            publisher.publish("a", 1)
        assert payloads() == [1]

        publisher.close()
        with pytest.raises(InvalidEvent, match="closed"):
            publisher.publish("a", 2)

    @pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "raise ValueError"])
    def test_at_the_end_of_a_process(self, ending: str) -> None:
        run_script(f"{COLLECT}{ending}")

        assert payloads() == ["one", "two"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
    def test_what_a_forked_process_collects_and_its_parents_once(self) -> None:
        run_script(f"{COLLECT}{FORK}")

        assert sorted(payloads()) == ["child", "one", "two"]

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="it forks")
    def test_at_the_end_of_a_process_of_multiprocessing(self) -> None:
        run_script(f"{COLLECT}{FORK_BY_MULTIPROCESSING}")

        assert sorted(payloads()) == ["child", "one", "two"]


COLLECT = """
import django
django.setup()
from pgqueue import BufferedPublisher
publisher = BufferedPublisher(flush_every=3600)
publisher.publish("a", "one")
publisher.publish("a", "two")
"""
FORK = """
import os
child = os.fork()
if not child:
    publisher.publish("a", "child")
    publisher.flush()
    os._exit(0)
os.waitpid(child, 0)
"""
FORK_BY_MULTIPROCESSING = """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=publisher.publish, args=["a", "child"])
child.start()
child.join()
"""


def run_script(text: str) -> None:
    """Run a program on the tests' database to its end."""
    ran = subprocess.run(
        [sys.executable, "-c", text],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "could not be published" not in ran.stderr


class TestWhileTheDatabaseIsAway:
    def test_events_are_kept_and_published_when_it_is_back(self, away: Away) -> None:
        with BufferedPublisher(flush_every=0.01) as publisher:
            publisher.publish("a", 1)
            eventually(lambda: away.times > 1)
            publisher.publish("a", 2)

            away.is_away = False

            assert eventually(lambda: payloads() == [1, 2])

    def test_a_flush_says_so(self, publisher: BufferedPublisher, away: Away) -> None:
        publisher.publish("a", 1)

        with pytest.raises(OperationalError, match="away"):
            publisher.flush()

        away.is_away = False
        publisher.flush()
        assert payloads() == [1]

    def test_no_more_than_so_many_are_kept(self, away: Away) -> None:
        with BufferedPublisher(flush_every=LONG, max_buffered=2) as publisher:
            publisher.publish("a", 1)
            publisher.publish("a", 2)

            with pytest.raises(OperationalError, match="away"):
                publisher.publish("a", 3)
            away.is_away = False
            publisher.publish("a", 4)

        assert payloads() == [1, 2, 4]

    def test_a_connection_that_was_lost_is_replaced(
        self, publisher: BufferedPublisher, other: psycopg.Connection[Any]
    ) -> None:
        publisher.publish("a", 1)
        publisher.flush()
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name LIKE '%pgqueue publisher'"
        )
        publisher.publish("a", 2)

        with pytest.raises(OperationalError):
            publisher.flush()
        publisher.flush()

        assert payloads() == [1, 2]

    def test_the_end_tries_again_for_a_while(self, monkeypatch: pytest.MonkeyPatch) -> None:
        Away(monkeypatch, fails=2)
        with BufferedPublisher(flush_every=LONG) as publisher:
            publisher.publish("a", 1)

        assert payloads() == [1]

    def test_the_end_logs_in_full_what_is_left(
        self, away: Away, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(buffering, "LAST_TRIES", 0.3)
        with BufferedPublisher(flush_every=LONG) as publisher:
            publisher.publish("a", {"n": 1}, key="k", metadata={"m": 2})
            publisher.publish("b", {"n": 2})

        assert "2 events could not be published" in caplog.text
        for said in ('{"n":1}', "'key': 'k'", '{"m": 2}', '{"n":2}'):
            assert said in caplog.text
        assert payloads() == []


class TestOneThatPostgresDoesNotTake:
    @pytest.fixture(
        params=[("jsonb", psycopg.DataError), ("deep", psycopg.errors.StatementTooComplex)],
        ids=["of no value", "too complex"],
    )
    def poisoned(
        self, publisher: BufferedPublisher, request: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A publisher with an event that is refused, between others."""
        publish_many, kind = engine.publish_many, request.param[1]

        def refuse(connection: Any, events: list[NewEvent]) -> None:
            if any(each.payload == '"poison"' for each in events):
                raise kind("poison") if kind is psycopg.DataError else TooComplex("poison")
            publish_many(connection, events)

        monkeypatch.setattr(engine, "publish_many", refuse)
        for payload in (1, 2, "poison", 3):
            publisher.publish("a", payload)

    def test_is_logged_in_full_and_the_others_are_published(
        self, publisher: BufferedPublisher, poisoned: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        publisher.flush()

        assert payloads() == [1, 2, 3]
        assert "could not be published" in caplog.text
        assert '"poison"' in caplog.text

    def test_repeats_none_of_the_others_where_the_database_goes_away_meanwhile(
        self,
        publisher: BufferedPublisher,
        poisoned: None,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        refuse, tries = engine.publish_many, iter(range(100))

        def go_away(connection: Any, events: Any) -> None:
            if next(tries) == 2:
                raise psycopg.OperationalError("the database is away")
            refuse(connection, events)

        monkeypatch.setattr(engine, "publish_many", go_away)
        with pytest.raises(OperationalError, match="away"):
            publisher.flush()

        publisher.flush()

        assert payloads() == [1, 2, 3]
        assert caplog.text.count("could not be published") == 1

    def test_is_refused_by_postgres_itself(
        self, publisher: BufferedPublisher, caplog: pytest.LogCaptureFixture
    ) -> None:
        publisher.publish("a", 1)
        publisher._events.append(NewEvent("a", "", "{not json", "{}"))
        publisher.publish("a", 2)

        publisher.flush()

        assert payloads() == [1, 2]
        assert "{not json" in caplog.text

    def test_is_kept_where_it_is_the_tables_that_are_missing(
        self, publisher: BufferedPublisher, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publisher.publish("a", 1)
        with monkeypatch.context() as lacking:
            lacking.setitem(engine.SQL, "copy", "COPY pgqueue_gone FROM STDIN")
            with pytest.raises(Exception, match="pgqueue_gone"):
                publisher.flush()

        publisher.flush()

        assert payloads() == [1]


class TooComplex(psycopg.errors.StatementTooComplex):
    """As PostgreSQL would raise it."""

    sqlstate = "54001"


@pytest.mark.parametrize(
    "options",
    [
        {"flush_every": 0},
        {"flush_every": "1"},
        {"max_batch": 0},
        {"max_buffered": None},
        {"database": "gone"},
    ],
)
def test_an_option_that_can_not_be_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidEvent, match=str(next(iter(options.values())))):
        BufferedPublisher(**options)


def test_an_event_that_can_not_be_is_refused_at_once(publisher: BufferedPublisher) -> None:
    refused: list[tuple[type[Exception], Callable[[], None]]] = [
        (InvalidEvent, lambda: publisher.publish("a..b")),
        (InvalidEvent, lambda: publisher.publish("a", object())),
        (PayloadTooLarge, lambda: publisher.publish("a", "x" * 17_000_000)),
    ]
    for error, publish in refused:
        with pytest.raises(error):
            publish()
    publisher.flush()

    assert payloads() == []
