"""Conditions in SQL of tails and groups: the same checks and role as those of subscriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import pytest

from pgqueue import InvalidFilter, UnreadableEvent, publish, publish_many, tail
from pgqueue.engine import predicates
from pgqueue.events import consumers
from pgqueue.events.consumers import consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Cursor, Message

EVEN = "(e.payload ->> 'n')::int % 2 = 0"
FAILING = "12 / (e.payload ->> 'n')::int > 2"
FORBIDDEN = [
    ("true; DROP TABLE pgqueue_event", "syntax error"),
    ("EXISTS (SELECT)", "sub-selects"),
    ("EXISTS (SELECT FROM pgqueue_webhook)", "does not exist"),
    ("pg_sleep(1) IS NULL", "pg_sleep"),
    ("current_user = 'a'", "current_user"),
    ("e.nothing", "does not exist"),
]


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})
    monkeypatch.setattr(predicates, "_checked", set())


@pytest.fixture
def reading() -> Iterator[Callable[..., GroupReader]]:
    """A function that makes the reader of a group `g`, to be driven by its `tick()`."""
    made: list[GroupReader] = []

    def reading(handler: Callable[[Any], Any], **options: Any) -> GroupReader:
        declared = consumer("g", **{"start": "beginning", **options})(handler)
        made.append(GroupReader(declared))
        return made[-1]

    yield reading
    for each in made:
        each.stop()
        each.finish()


def tailed(count: int, **options: Any) -> list[int]:
    """Return the first events of a tail."""
    with closing(tail(after=0, **options)) as events:
        return [each.position for each in islice(events, count)]


def handled(reader: GroupReader, seen: list[int], upto: int) -> list[int]:
    """Let a reader come to a position, and return what its handler has seen."""
    for _ in range(20):
        reader.tick()
        for each in reader._held.values():
            each.retry_at = 0.0
        if Cursor.objects.filter(group="g", position=upto).exists():
            return seen
    raise AssertionError(f"{upto} was not reached")


class TestATail:
    def test_yields_the_events_that_meet_it(self) -> None:
        publish_many([("a", {"n": n}) for n in range(1, 1201)])

        assert tailed(300, predicate=EVEN) == list(range(2, 601, 2))
        params = "e.payload @> s.params AND s.name = ''"
        assert tailed(1, predicate=params, params={"n": 700}) == [700]
        assert tailed(1, predicate=EVEN, where={"n__gt": 4}, topics="a") == [6]

    @pytest.mark.parametrize(("predicate", "words"), FORBIDDEN)
    def test_refuses_anything_forbidden(self, predicate: str, words: str) -> None:
        publish("a", {"n": 1})

        with pytest.raises(InvalidFilter, match=words):
            tailed(1, predicate=predicate)

    def test_names_the_event_with_which_it_fails(self) -> None:
        publish_many([("a", {"n": n}) for n in (3, 4, 0, 5)])

        with closing(tail(after=0, predicate=FAILING)) as events:
            found = iter(events)
            assert [next(found).position, next(found).position] == [1, 2]
            with pytest.raises(UnreadableEvent, match=r"position 3: DivisionByZero.*after=3 to"):
                next(found)

    def test_names_the_event_with_which_it_takes_too_long(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish("a")
        monkeypatch.setattr(predicates, "PATIENCE", 0.2)
        monkeypatch.setattr(predicates, "check", lambda connection, predicate: None)

        with pytest.raises(UnreadableEvent, match="position 1: QueryCanceled"):
            tailed(1, predicate="pg_sleep(e.position * 30) IS NULL")

    def test_is_evaluated_by_the_role_without_rights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        publish("a")
        monkeypatch.setattr(predicates, "check", lambda connection, predicate: None)

        with pytest.raises(InvalidFilter, match="permission denied"):
            tailed(1, predicate="EXISTS (SELECT FROM public.pgqueue_event)")


class TestAGroup:
    @pytest.mark.parametrize("options", [{}, {"batch": 7}, {"partitions": 2}, {"atomic": True}])
    def test_handles_the_events_that_meet_it(
        self, reading: Callable[..., GroupReader], options: dict[str, Any]
    ) -> None:
        publish_many([("a", {"n": n}) for n in range(1, 31)])
        seen: list[int] = []

        def note(given: Any) -> None:
            seen.extend(each.position for each in (given if isinstance(given, list) else [given]))

        predicate = f"{EVEN} AND s.name = 'g'"
        handled(reading(note, predicate=predicate, **options), seen, 30)

        assert seen == list(range(2, 31, 2))

    def test_gives_up_an_event_with_which_it_fails(
        self, reading: Callable[..., GroupReader]
    ) -> None:
        publish_many([("a", {"n": n}) for n in (3, 0, 4)])
        seen: list[int] = []
        reader = reading(
            lambda event: seen.append(event.position), predicate=FAILING, max_attempts=2
        )

        assert handled(reader, seen, 3) == [1, 3]
        (dead,) = Message.objects.filter(channel="group:g")
        assert "DivisionByZero" in dead.errors[0]["class"]

    def test_reads_nothing_if_it_is_invalid(self, reading: Callable[..., GroupReader]) -> None:
        publish("a", {"n": 1})
        seen: list[Any] = []

        with pytest.raises(InvalidFilter, match="pg_sleep"):
            reading(seen.append, predicate="pg_sleep(1) IS NULL").tick()

        assert seen == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"predicate": 7}, "predicate=7"),
        ({"predicate": "true", "params": [1]}, "params="),
        ({"params": {"a": 1}}, "give predicate=, too"),
    ],
)
def test_invalid_options_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidFilter, match=words):
        tail(**options)
    with pytest.raises(InvalidFilter, match=words):
        consumer("g", **options)
