"""Options that can be anything: each is refused by an error of ours, or does what it says."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from hypothesis import example, given

from pgqueue import (
    BufferedPublisher,
    Channel,
    Exponential,
    PGQueueError,
    Schedule,
    Task,
    conf,
    consumer,
    models,
    publish,
    publish_later,
    publish_many,
    read,
    receive_external,
    receive_webhook,
    send,
    subscribe,
    tail,
    webhooks,
)
from pgqueue.codec import raw
from pgqueue.codec.json_text import to_json
from pgqueue.database.connections import borrow
from pgqueue.engine import schedule as engine
from pgqueue.events import buffering, consumers, groups, subscribing, subscriptions
from pgqueue.models import Dedupe, EventInbox, Message, Policy
from pgqueue.options.retries import as_backoff, load_backoff
from pgqueue.tasks import registry, scheduling
from tests import collecting_jobs, jobs
from tests.anything import ANYTHING, EXAMPLES, TEXTS, attempt, nested

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

CENTURY = timedelta(days=36_525)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def seconds(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def about(left: datetime | None, right: datetime) -> bool:
    return left is not None and abs(left - right) < timedelta(minutes=1)


def is_same(stored: Any, given: Any) -> bool:
    """Return whether two values are the same; jsonb makes a whole number of 4e16."""
    if isinstance(given, dict):
        return stored.keys() == given.keys() and all(is_same(stored[k], given[k]) for k in given)
    if isinstance(given, list):
        return len(stored) == len(given) and all(map(is_same, stored, given))
    return stored == given or (isinstance(given, float) and float(stored) == given)


def held(message: Message, value: Any) -> bool:
    if value is None:
        return message.state == "ready"
    until = message.created_at + timedelta(seconds=seconds(value))
    return message.state == "held" and about(message.lease_until, until)


def remembered(message: Message, value: Any) -> bool:
    """Return whether a dedupe key is kept as long as was said beyond its message."""
    row = Dedupe.objects.filter(message_id=message.pk).first()
    if value is None:
        return row is None
    return row is not None and about(
        row.expires_at, message.created_at + timedelta(seconds=seconds(value))
    )


def backed_off(message: Message, value: Any) -> bool:
    stored = (message.options or {}).get("backoff")
    if value is None:
        return stored is None
    return load_backoff(stored) == as_backoff(value)


def due(message: Message, value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, datetime):
        return message.run_at == value
    return about(message.run_at, message.created_at + timedelta(seconds=seconds(value)))


STORED: Mapping[str, Callable[[Message, Any], bool]] = {
    "channel": lambda message, value: message.channel == (value or "default"),
    "key": lambda message, value: message.key == value,
    "priority": lambda message, value: message.priority == value,
    "weight": lambda message, value: (message.options or {}).get("weight", 1) == value,
    "run_after": due,
    "expires_at": lambda message, value: message.expires_at == value,
    "ttl": lambda message, value: (
        message.expires_at is None
        if value is None
        else about(message.expires_at, message.created_at + timedelta(seconds=seconds(value)))
    ),
    "ordered": lambda message, value: message.ordered == value,
    "dedupe_key": lambda message, value: message.dedupe_key == value,
    "dedupe_for": remembered,
    "on_conflict": lambda message, value: value in ("return", "replace", "collect", "raise"),
    "longest_wait": lambda message, value: message.state == "ready",
    "hold_for": held,
    "max_attempts": lambda message, value: message.max_attempts == (20 if value is None else value),
    "backoff": backed_off,
    "timeout": lambda message, value: (
        (message.options or {}).get("timeout") == (None if value is None else seconds(value))
    ),
    "hard_timeout": lambda message, value: (
        (message.options or {}).get("hard_timeout") == (None if value is None else seconds(value))
    ),
    "atomic": lambda message, value: (message.options or {}).get("atomic", False) == value,
    "metadata": lambda message, value: is_same(message.metadata, value),
    "tags": lambda message, value: message.metadata.get("tags", []) == value,
    "enqueue_on_commit": lambda message, value: value is False,
    "database": lambda message, value: value in (None, "default"),
    "connection": lambda message, value: value is None,
    "payload": lambda message, value: is_same(
        None if message.payload is None else raw.decode("it", to_json(message.payload).encode()),
        value,
    ),
    "body": lambda message, value: (
        message.body is None if value is None else bytes(message.body or b"") == bytes(value)
    ),
}
"""Whether a message has what an option says."""

OF_MESSAGES: Mapping[str, list[Any]] = {
    "channel": ["mail", "x" * 200, "é" * 100, "\U0001f600"],
    "key": ["", "a", "k" * 1000, "\U0001f600"],
    "priority": [-100, 0, 100],
    "weight": [1, 5, 100],
    "run_after": [None, 0, 1.5, CENTURY, -CENTURY, NOW],
    "expires_at": [None, datetime(2090, 1, 1, tzinfo=UTC)],
    "ttl": [None, 0.5, 60, CENTURY],
    "ordered": [True, False],
    "dedupe_key": [None, "d", "d" * 1000],
    "dedupe_for": [None, 0.5, 60, CENTURY],
    "on_conflict": ["return", "replace", "raise"],
    "longest_wait": [None, 0.5, 60, CENTURY],
    "hold_for": [None, 60, CENTURY],
    "max_attempts": [None, 1, 2**31 - 1],
    "metadata": [{}, {"a": [1, {"b": None}]}, {"\U0001f600": "\U0001f600", "path": "a\\ud\\u0000"}],
}
"""Values that each option must accept."""
OF_TASKS: Mapping[str, list[Any]] = {
    **OF_MESSAGES,
    "channel": [None, *OF_MESSAGES["channel"]],
    "on_conflict": [*OF_MESSAGES["on_conflict"], "collect"],
    "backoff": [None, [1, 2.5], [CENTURY], Exponential(), Exponential(base=1e-3, cap=9, jitter=1)],
    "tags": [[], ["import"], ["\U0001f600" * 25]],
    "timeout": [None, 0.5, 60, CENTURY],
    "hard_timeout": [None, 0.5, 60, CENTURY],
    "atomic": [False, True, "serializable"],
    "enqueue_on_commit": [False],
    "database": [None, "default"],
    "connection": [None],
}
OF_SEND: Mapping[str, list[Any]] = {
    **OF_MESSAGES,
    "payload": [None, 1, "\U0001f600", [1.5, {"@": 1}], NOW, {"a": {1, 2}}],
    "body": [None, b"", b"\x00\xff", bytearray(b"b"), memoryview(b"m")],
    "database": [None, "default"],
    "connection": [None],
}


OTHERS: Mapping[str, Mapping[str, Any]] = {
    "dedupe_for": {"dedupe_key": "d"},
    "longest_wait": {"dedupe_key": "d", "on_conflict": "replace"},
}
"""Options without which an option means nothing."""


def enqueue(name: str, value: Any) -> None:
    """Enqueue a task with this option, and look at what is stored."""
    others = OTHERS.get(name, {})
    options = {**others, name: value}
    if name == "on_conflict" and value == "collect":
        result: Any = collecting_jobs.any_list.using(**options).enqueue([1])
    else:
        result = jobs.add.using(**options).enqueue(1)
    if name == "enqueue_on_commit" and value is not False:
        return  # stored at a commit, which this test does not have
    message = Message.objects.get(pk=result.id)
    assert STORED[name](message, value), (name, value)


def send_one(name: str, value: Any) -> None:
    """Send a message with this option, and look at what is stored."""
    others = OTHERS.get(name, {})
    message = Message.objects.get(pk=send(**{"channel": "mail", **others, name: value}))
    assert STORED[name](message, value), (name, value)


def refused(
    options: Mapping[str, list[Any]],
    verb: Callable[[str, Any], object],
    *errors: type[Exception],
) -> list[str]:
    """Give each value to its option, alone; return the refused ones.

    Args:
        errors: the errors of a refusal, in place of PGQueueError.
    """
    found = []
    for name, values in options.items():
        for value in values:
            try:
                if not attempt(partial(verb, name, value), *(errors or [PGQueueError])):
                    found.append(f"{name}={value!r}")
            except BaseException as error:
                error.add_note(f"for {name}={value!r}")
                raise
    return found


class TestATask:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_TASKS, enqueue) == []

    @pytest.mark.parametrize("name", OF_TASKS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**31)
    @example(value=math.nan)
    @example(value=timedelta.max)
    @example(value=timedelta.min)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        if callable(value) and name in ("key", "dedupe_key", "backoff"):
            return  # the caller's function, called with the arguments
        attempt(lambda: enqueue(name, value), PGQueueError)

    @pytest.mark.parametrize("name", ["base", "cap", "jitter"])
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=math.nan)
    @example(value=math.inf)
    @example(value="2")
    @pytest.mark.nightly
    def test_refuses_a_backoff_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: enqueue("backoff", Exponential(**{name: value})), PGQueueError)


class TestSend:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_SEND, send_one) == []

    @pytest.mark.parametrize("name", OF_SEND)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**31)
    @example(value=math.nan)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: send_one(name, value), PGQueueError)

    def test_has_no_other_option(self) -> None:
        with pytest.raises(PGQueueError, match="no option 'id'"):
            send("mail", id=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("verb", [enqueue, send_one])
def test_metadata_nested_too_deeply_is_refused(verb: Callable[[str, Any], None]) -> None:
    assert not attempt(lambda: verb("metadata", {"a": nested(5000)}), PGQueueError)


OF_POLICIES: Mapping[str, list[Any]] = {
    "max_running": [1, 2**31 - 1],
    "rate": [0.001, 1, 1e6],
    "per": [0.001, 60, timedelta(days=366)],
    "burst": [1, 1000],
    "max_size": [1, 2**31 - 1],
    "weight": [1, 100],
    "breaker": [(1, 1, 1), (1000, timedelta(days=366), 0.001)],
    "key": [None, "a", "k" * 1000],
    "each_key": [True, False],
}


def limit(name: str, value: Any) -> None:
    """State a policy, and look at what is stored."""
    others: Mapping[str, Any] = {"burst": {"rate": 1}, "per": {"rate": 1}}
    rest = {"weight": {"each_key": True}, **others}.get(name, {"max_running": 1})
    Channel("mail").policy(**{**rest, name: value})
    policy = Policy.objects.get()
    if name in ("max_running", "max_size", "burst", "weight", "rate"):
        assert getattr(policy, name) == value
    elif name == "breaker":
        failures, *times = value or (None, None, None)
        given = [each and timedelta(seconds=seconds(each)) for each in times]
        assert policy.breaker_failures == failures
        assert [policy.breaker_within, policy.breaker_pause] == given
    elif name == "per":
        assert policy.per == timedelta(seconds=seconds(value))
    elif name == "key":
        assert (policy.scope, policy.key) == ("key" if value else "channel", value or "")
    else:
        assert policy.scope == ("each" if value else "channel")


class TestAPolicy:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_POLICIES, limit) == []

    @pytest.mark.parametrize("name", OF_POLICIES)
    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: limit(name, value), PGQueueError)

    @EXAMPLES
    @given(name=TEXTS)
    @pytest.mark.nightly
    def test_refuses_the_name_of_a_channel_or_stores_it(self, name: str) -> None:
        def state() -> None:
            Channel(name).policy(max_running=1)
            assert Policy.objects.get().channel == name

        attempt(state, PGQueueError)


OF_CHANNELS: Mapping[str, list[Any]] = {
    "on_dead": ["block", "skip"],
    "on_full": ["refuse", "drop"],
    "handler": ["", "tests.jobs.add"],
    "watched": [True, False],
    "retention": [None, 60, timedelta(days=9)],
    "dead_retention": [None, 0.5, CENTURY],
    "urgent_first": [True, False],
    "age_after": [None, 0.5, CENTURY],
}


def configure(name: str, value: Any) -> None:
    """Configure a channel, and look at what is stored."""
    Channel("mail").policy(weight=1, each_key=True)
    Channel("mail").configure(**{name: value})
    stored = getattr(models.Channel.objects.get(), name)
    if name == "retention" and isinstance(value, Mapping):
        return
    is_duration = name in ("retention", "dead_retention", "age_after") and value is not None
    assert stored == (timedelta(seconds=seconds(value)) if is_duration else value)


class TestAChannel:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_CHANNELS, configure) == []

    @pytest.mark.parametrize("name", OF_CHANNELS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value="a\x00b")
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: configure(name, value), PGQueueError)

    @pytest.mark.parametrize("verb", ["cancel", "replay", "discard"])
    @pytest.mark.parametrize("name", ["id", "task", "key", "older_than"])
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=1e13)
    @example(value="\x00")
    @example(value="\ud800")
    @pytest.mark.nightly
    def test_refuses_a_choice_of_messages_or_obeys_it(
        self, verb: str, name: str, value: Any
    ) -> None:
        def choose() -> None:
            result = jobs.add.using(channel="mail", key="k").enqueue(1)
            chosen = [value] if name == "id" else []
            options = {} if name == "id" else {name: value}
            operated = getattr(Channel("mail"), verb)(*chosen, **options)
            is_all = name != "id" and value is None
            is_age = name == "older_than" and value is not None
            if verb == "cancel" and not is_age:  # the others are for dead letters
                assert list(operated.done) == ([int(result.id)] if is_all else [])

        attempt(choose, ValueError)

    @pytest.mark.parametrize(
        "options",
        [{}, {"task": "tests.jobs.add"}, {"key": "k"}, {"older_than": 0}, {"older_than": -0.0}],
    )
    def test_accepts_a_choice_of_messages(self, options: dict[str, Any]) -> None:
        result = jobs.add.using(channel="mail", key="k").enqueue(1)
        Message.objects.update(created_at=NOW)

        assert list(Channel("mail").cancel(**options).done) == [int(result.id)]

    @pytest.mark.parametrize("name", ["keep", "older_than"])
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=1e13)
    @pytest.mark.nightly
    def test_refuses_how_to_trim_or_obeys_it(self, name: str, value: Any) -> None:
        def trim() -> None:
            jobs.add.using(channel="mail").enqueue(1)
            Message.objects.update(created_at=NOW)
            count = Channel("mail").trim(**{name: value})
            if name == "keep":
                assert count == (0 if value else 1)

        attempt(trim, ValueError)


OF_SCHEDULES: Mapping[str, list[Any]] = {
    "when": ["*/5 * * * *", "@daily", 1, 1.5, 60, timedelta(days=9)],
    "timezone": [None, "Europe/Berlin"],
    "name": ["a", "n" * 500, "\U0001f600"],
    "args": [(), (1, "a"), [None]],
    "kwargs": [{}, {"b": 1}],
    "missed": ["skip", "once", "all"],
    "overlap": ["allow", "skip", "one"],
}


def store_schedule(name: str, value: Any) -> None:
    """Declare a schedule, and look at what is stored."""
    schedule = Schedule(**{"when": "@daily", "name": "s", name: value})
    task = replace(jobs.anything, schedule=(schedule,))
    with patch.object(registry, "each", return_value=[task]), borrow("default") as connection:
        engine.declare(connection, scheduling.declared("default"))
    row = models.Schedule.objects.get(task=task.name)
    if name == "when":
        assert row.cron == " ".join(value.split()) if isinstance(value, str) else row.every
    elif name == "timezone":
        assert row.timezone == (value or "UTC")
    elif name == "name":
        assert row.name == (value or task.name)
    elif name in ("missed", "overlap"):
        assert getattr(row, name) == value
    else:
        payload = to_json({"args": row.args, "kwargs": row.kwargs})
        args, kwargs = task.codec.decode(payload)
        if name == "args":
            assert is_same(list(args), list(value))
        else:
            assert is_same(kwargs, dict(value))


class TestASchedule:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_SCHEDULES, store_schedule) == []

    @pytest.mark.parametrize("name", OF_SCHEDULES)
    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: store_schedule(name, value), PGQueueError)


OF_PUBLISH: Mapping[str, list[Any]] = {
    "event": ["a", "order.paid", "x" * 200, "\U0001f600.é"],
    "payload": OF_SEND["payload"],
    "key": [None, *OF_MESSAGES["key"]],
    "metadata": [None, *OF_MESSAGES["metadata"]],
    "database": [None, "default"],
    "connection": [None],
}


OF_CONDITIONS: Mapping[str, list[Any]] = {
    "expect": [None, 0],
    "if_none_since": [None, ("a", "b", 0), [("a", "b", 0), ("x" * 200, "x" * 1000, 0)]],
}
PARTS_OF_SINCE: Mapping[str, Any] = {"topic": "a", "key": "b", "position": 0}


def published(name: str, value: Any) -> None:
    """Look at what is in the inbox."""
    event = EventInbox.objects.get()
    if name == "payload":
        assert STORED["payload"](event, value)  # type: ignore[arg-type]
    elif name == "metadata":
        assert is_same(event.metadata, value or {})
    elif name == "event":
        assert event.topic == value
    elif name == "key":
        assert event.key == (value or "")


def publish_one(name: str, value: Any) -> None:
    """Publish an event with this option, and look at what is stored."""
    publish(**{"event": "a", name: value})
    published(name, value)


def publish_several(name: str, value: Any) -> None:
    """Publish an event with this option by COPY, and look at what is stored."""
    event = {"event": "a", "payload": None, "key": None}
    if name in event:
        event[name] = value
        publish_many([tuple(event.values())])
    else:
        publish_many([("a",)], **{name: value})
    published(name, value)


class TestPublishing:
    @pytest.mark.parametrize("verb", [publish_one, publish_several])
    def test_accepts_and_stores_each_option(self, verb: Callable[[str, Any], None]) -> None:
        assert refused(OF_PUBLISH, verb) == []

    @pytest.mark.parametrize("verb", [publish_one, publish_several])
    @pytest.mark.parametrize("name", OF_PUBLISH)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=math.nan)
    @example(value=10**5000)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(
        self, verb: Callable[[str, Any], None], name: str, value: Any
    ) -> None:
        attempt(lambda: verb(name, value), PGQueueError)

    @pytest.mark.parametrize("verb", [publish_one, publish_several])
    @pytest.mark.parametrize("name", OF_PUBLISH)
    def test_refuses_what_is_nested_too_deeply(
        self, verb: Callable[[str, Any], None], name: str
    ) -> None:
        value = {"a": nested(5000)}
        assert not attempt(lambda: verb(name, value), PGQueueError)

    def test_accepts_each_condition(self) -> None:
        def verb(name: str, value: Any) -> object:
            return publish("a", key="k", **{name: value})

        assert refused(OF_CONDITIONS, verb) == []

    @pytest.mark.parametrize("name", OF_CONDITIONS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**63)
    @pytest.mark.nightly
    def test_refuses_a_condition_of_publishers_or_takes_it(self, name: str, value: Any) -> None:
        attempt(lambda: publish("a", key="k", **{name: value}), PGQueueError)

    @pytest.mark.parametrize("name", PARTS_OF_SINCE)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**63)
    @pytest.mark.nightly
    def test_refuses_a_part_of_a_condition_or_takes_it(self, name: str, value: Any) -> None:
        since = tuple({**PARTS_OF_SINCE, name: value}.values())
        attempt(lambda: publish("a", if_none_since=since), PGQueueError)

    @EXAMPLES
    @given(value=ANYTHING)
    def test_refuses_what_are_no_events(self, value: Any) -> None:
        attempt(lambda: publish_many(value), PGQueueError)
        attempt(lambda: publish_many([value]), PGQueueError)


OF_READ: Mapping[str, list[Any]] = {
    "after": [0, 1],
    "topics": [None, "a", "**", ["a", "b.*"], []],
    "where": [None, {}, {"b__gte": 1}, {"b": {"c": None}}],
    "key": [None, "", "a", "x" * 1000],
    "limit": [1, 2**31 - 1],
    "database": [None, "default"],
}
CONDITIONS = ["a", "a__gt", "a__in", "a__contains", "a__startswith", "a__exists"]


def read_log(name: str, value: Any) -> None:
    """Read with this option: PostgreSQL takes it, too."""
    models.Event.objects.create(
        position=1, topic="a", key="", payload={"b": 1}, metadata={}, created_at=NOW
    )
    found = read(**{name: value})
    assert [each.position for each in found] in ([], [1])


class TestReading:
    def test_accepts_each_option(self) -> None:
        assert refused(OF_READ, read_log, PGQueueError, ValueError) == []

    @pytest.mark.parametrize("name", OF_READ)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**63)
    @pytest.mark.nightly
    def test_refuses_an_option_or_takes_it(self, name: str, value: Any) -> None:
        attempt(lambda: read_log(name, value), PGQueueError, ValueError)

    @pytest.mark.parametrize("lookup", CONDITIONS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=10**5000)
    @pytest.mark.nightly
    def test_refuses_a_condition_or_takes_it(self, lookup: str, value: Any) -> None:
        attempt(lambda: read_log("where", {lookup: value}), PGQueueError)

    @EXAMPLES
    @given(lookup=TEXTS)
    @pytest.mark.nightly
    def test_refuses_the_name_of_a_condition_or_takes_it(self, lookup: str) -> None:
        attempt(lambda: read_log("where", {lookup: 1}), PGQueueError)

    @pytest.mark.parametrize(
        "name", [*(each for each in OF_READ if each != "limit"), "predicate", "params"]
    )
    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_how_to_follow_the_log_or_takes_it(self, name: str, value: Any) -> None:
        attempt(lambda: tail(**{name: value}), PGQueueError, ValueError)


OF_CONSUMERS: Mapping[str, list[Any]] = {
    "name": ["g", "x" * 190, "\U0001f600"],
    "topics": OF_READ["topics"],
    "where": OF_READ["where"],
    "key": OF_READ["key"],
    "predicate": ["", "e.key = ''"],
    "params": [None, {}],
    "batch": [None, 1, 10_000],
    "atomic": [True, False],
    "partitions": [1, 1024],
    "start": ["now", "beginning", 0, 2**62, NOW],
    "max_attempts": [None, 1, 2**31 - 1],
    "backoff": [None, [1, 2.5], Exponential()],
    "on_failure": ["park", "stop"],
    "database": [None, "default"],
}


def declare(name: str, value: Any) -> None:
    """Declare a group with this option, and look at what it has; the name also makes one."""
    with patch.object(consumers, "_consumers", {}):
        made = consumer(**{"name": "g", name: value})(print)
        if name in ("topics", "where", "key", "predicate", "params", "backoff"):
            return
        expected = value.astimezone(UTC) if isinstance(value, datetime) else value
        if name == "max_attempts" and value is None:
            expected = 5
        assert getattr(made, name) == expected
        if name in ("name", "partitions"):
            groups.make(made.name, partitions=made.partitions)
            assert models.Group.objects.get().partitions == models.Cursor.objects.count()


class TestAGroup:
    def test_accepts_each_option(self) -> None:
        assert refused(OF_CONSUMERS, declare) == []

    @pytest.mark.parametrize("name", OF_CONSUMERS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**31)
    @pytest.mark.nightly
    def test_refuses_an_option_or_has_it(self, name: str, value: Any) -> None:
        if callable(value) and name == "backoff":
            return
        attempt(lambda: declare(name, value), PGQueueError)

    @pytest.mark.parametrize("verb", [groups.reset, groups.resume, groups.delete])
    @EXAMPLES
    @given(value=ANYTHING)
    def test_refuses_a_name_that_it_does_not_know(
        self, verb: Callable[..., Any], value: Any
    ) -> None:
        rest = ["now"] if verb is groups.reset else []
        assert not attempt(lambda: verb(value, *rest), PGQueueError)

    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_where_to_go_or_goes_there(self, value: Any) -> None:
        groups.make("g")
        attempt(lambda: groups.reset("g", value), PGQueueError)


OF_SUBSCRIPTIONS: Mapping[str, list[Any]] = {
    "topics": [None, "order.*", ["a", "b.**"], ()],
    "where": [None, {}, {"a__gte": 1}, {"a": {"b": "\U0001f600"}}, {"a__in": [1, None]}],
    "params": [None, {}, {"a": [1]}],
    "name": ["a", "n" * 500, "\U0001f600"],
    "key": ["", "fixed", "{key}", "{topic}", "{payload.a.b}", "k" * 1000],
    "ordered": [True, False],
    "batch": [None, 1, 10_000],
    "split_by": ["", "{key}", "fixed"],
    "start": ["now", "beginning", 0, NOW],
    "expires_after": [None, 0.5, 60, CENTURY],
}
OF_CREATE: Mapping[str, list[Any]] = {
    **OF_SUBSCRIPTIONS,
    "task": ["tests.jobs.add", jobs.add, ""],
    "channel": [None, "mail", "x" * 200],
    "database": [None, "default"],
}
OF_SUBSCRIBE: Mapping[str, list[Any]] = {
    **OF_SUBSCRIPTIONS,
    **{
        name: OF_TASKS[name]
        for name in ("channel", "priority", "weight", "max_attempts", "metadata")
    },
}


def has_option(row: models.Subscription, name: str, value: Any) -> bool:
    """Return whether a subscription has what an option says."""
    if name == "topics":
        return row.topics == list(dict.fromkeys([value] if isinstance(value, str) else value or ()))
    if name in ("where", "params"):
        return is_same(getattr(row, name), value or {})
    if name == "channel":
        return row.channel == (value or "default")
    if name == "expires_after":
        return row.expires_after == (value and timedelta(seconds=seconds(value)))
    if name == "start":
        return row.position == 0
    if name == "task":
        return row.task == ("tests.jobs.add" if value else "")
    if name == "metadata":
        return is_same(row.metadata, value)
    if name == "max_attempts":
        return row.max_attempts == (value or 20)
    return name == "database" or getattr(row, name) == value


def create_subscription(name: str, value: Any) -> None:
    """Make a subscription with this option, and look at what is stored."""
    given = {"name": "s", "task": jobs.add, name: value}
    if name == "split_by":
        given["batch"] = 2
    if name == "task" and value == "":
        given["channel"] = "mail"
    subscriptions.create(**given)
    assert has_option(models.Subscription.objects.get(), name, value), (name, value)


def declare_subscription(name: str, value: Any) -> None:
    """Declare a subscription with this option, and look at what is stored."""
    given = {"name": "s", name: value}
    if name == "split_by":
        given["batch"] = 2
    topics = given.pop("topics", None) or ()
    with (
        patch.object(subscribing, "_subscriptions", {}),
        # Modules that are imported for it only now would declare their own.
        patch.object(subscribing, "autodiscover_modules"),
    ):
        subscribe(*([topics] if isinstance(topics, str) else topics), **given)(jobs.add)
        subscriptions.synchronize()
    row = models.Subscription.objects.get()
    if name != "name" or value:
        assert has_option(row, name, value), (name, value)


class TestASubscription:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_CREATE, create_subscription) == []

    @pytest.mark.parametrize("name", OF_CREATE)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**62)
    @example(value=math.nan)
    @example(value={"a__gte": math.inf})
    @example(value={"a" * 1001: 1})
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: create_subscription(name, value), PGQueueError)

    def test_in_code_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_SUBSCRIBE, declare_subscription) == []

    @pytest.mark.parametrize("name", [name for name in OF_SUBSCRIBE if name != "topics"])
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**62)
    @example(value={"a__gte": math.inf})
    @pytest.mark.nightly
    def test_in_code_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: declare_subscription(name, value), PGQueueError)


OF_WEBHOOKS: Mapping[str, list[Any]] = {
    **{name: OF_CREATE[name] for name in OF_CREATE if name not in ("task", "key", "channel")},
    "channel": ["webhooks", "x" * 200],
    "url": [
        "https://example.com",
        "http://example.com:8080/a?b=c",
        "https://\u00fc.example/\u00fc",
    ],
    "secret": [None, f"whsec_{'A' * 32}"],
    "headers": [None, {}, {"X-From": "shop", "Authorization": "Bearer \u00fc"}],
    "cloudevents": [True, False],
    "gzip": [True, False],
    "serializer": [None, ""],
    "timeout": [None, 0.5, 300, timedelta(seconds=3)],
    "backoff": [None, [1, 2], (0, CENTURY), Exponential(base=1)],
    "max_attempts": [None, 1, 2**31 - 1],
}


def make_webhook(name: str, value: Any) -> None:
    """Make a webhook with this option, and look at what is stored."""
    given = {"name": "s", "url": "https://example.com", name: value}
    if name == "split_by":
        given["batch"] = 2
    webhooks.create(**given)
    row = models.Webhook.objects.get()
    if name in ("secret", "headers", "serializer"):
        assert value is None or getattr(row, name) == value
    elif name == "timeout":
        assert row.timeout == (value and timedelta(seconds=seconds(value)))
    elif name == "backoff":
        assert row.backoff is None if value is None else load_backoff(row.backoff)
    elif name == "max_attempts":
        assert row.max_attempts == (value or 16)
    elif name == "channel":
        assert row.channel == (value or "webhooks")
    else:
        assert has_option(row, name, value), (name, value)


class TestAnEndpoint:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_WEBHOOKS, make_webhook) == []

    @pytest.mark.parametrize("name", OF_WEBHOOKS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**62)
    @example(value="https://user:word@example.com")
    @example(value={"X": "a\r\nY: b"})
    @example(value={"a" * 1001: "1"})
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: make_webhook(name, value), PGQueueError)


OF_PUBLISHERS: Mapping[str, list[Any]] = {
    "flush_every": [0.001, 1, CENTURY],
    "max_batch": [1, 2**31 - 1],
    "max_buffered": [1, 2**31 - 1],
    "database": [None, "default"],
}


class TestABufferedPublisher:
    def test_accepts_each_option(self) -> None:
        def verb(name: str, value: Any) -> None:
            BufferedPublisher(**{name: value}).close()

        assert refused(OF_PUBLISHERS, verb) == []

    @pytest.mark.parametrize("name", OF_PUBLISHERS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**63)
    @pytest.mark.nightly
    def test_refuses_an_option_or_goes_by_it(self, name: str, value: Any) -> None:
        attempt(lambda: BufferedPublisher(**{name: value}).close(), PGQueueError)

    @pytest.mark.parametrize("name", ["event", "payload", "key", "metadata"])
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value="a.b")
    @pytest.mark.nightly
    def test_refuses_an_event_or_collects_it(self, name: str, value: Any) -> None:
        publisher = BufferedPublisher(flush_every=CENTURY)
        with patch.object(buffering, "_Flusher"), patch("atexit.register"):
            attempt(lambda: publisher.publish(**{"event": "a", name: value}), PGQueueError)


OF_LATER: Mapping[str, list[Any]] = {
    "event": ["a", "a.b", "x" * 200],
    "payload": OF_SEND["payload"],
    "run_after": [0, 1.5, CENTURY, -CENTURY, NOW],
    "key": [None, "", "k" * 1000],
    "metadata": OF_MESSAGES["metadata"],
    "channel": [None, "mail"],
    "database": [None, "default"],
    "connection": [None],
}


def publish_one_later(name: str, value: Any) -> None:
    """Publish an event at a later time, and look at the message."""
    result = publish_later(**{"event": "a", "run_after": 0, name: value})
    message = Message.objects.get(pk=result.id)
    topic, key, payload, metadata = message.payload["args"]
    if name == "event":
        assert topic == value
    elif name == "key":
        assert key == (value or "")
    elif name == "metadata":
        assert is_same(json.loads(metadata), value or {})
    elif name == "payload":
        read = None if payload is None else raw.decode("it", payload.encode())
        assert is_same(read, value)
    elif name in ("run_after", "channel"):
        assert STORED[name](message, value)


class TestPublishingLater:
    def test_accepts_and_stores_each_option(self) -> None:
        assert refused(OF_LATER, publish_one_later) == []

    @pytest.mark.parametrize("name", OF_LATER)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=math.nan)
    @pytest.mark.nightly
    def test_refuses_an_option_or_stores_it(self, name: str, value: Any) -> None:
        attempt(lambda: publish_one_later(name, value), PGQueueError)


OF_RECEIVING: Mapping[str, list[Any]] = {
    "message_id": ["a", "m" * 799, "\U0001f600", "a:b"],
    "payload": OF_SEND["payload"],
    "source": ["", "a", "s" * 200, "\U0001f600"],
    "key": [None, "", "k" * 1000],
    "run_after": [None, 0, 1.5, CENTURY, -CENTURY, NOW],
    "remember_for": [0.5, 60, CENTURY],
    "metadata": OF_MESSAGES["metadata"],
    "database": [None, "default"],
    "connection": [None],
}


def receive_one(to: Any, name: str, value: Any) -> None:
    """Receive a message with this option, and look at what is stored."""
    received = receive_external(**{"message_id": "m", "to": to, "payload": 1, name: value})
    assert received
    remembered = Dedupe.objects.get()
    if name == "message_id":
        assert remembered.dedupe_key == f":{value}"
    elif name == "source":
        assert remembered.dedupe_key == f"{value}:m"
    elif name == "remember_for":
        assert about(remembered.expires_at, timezone.now() + timedelta(seconds=seconds(value)))
    elif received.message is not None and name in ("key", "run_after") and isinstance(to, Task):
        message = Message.objects.get(pk=received.message.id)
        assert value is None or STORED[name](message, value)
    # The same message is known.
    assert not receive_external(**{"message_id": "m", "to": to, "payload": 1, name: value})


class TestReceiving:
    @pytest.mark.parametrize("to", [jobs.add, "a.b"], ids=["task", "topic"])
    def test_accepts_each_option(self, to: Any) -> None:
        assert refused(OF_RECEIVING, partial(receive_one, to)) == []

    @pytest.mark.parametrize("to", [jobs.add, "a.b"], ids=["task", "topic"])
    @pytest.mark.parametrize("name", OF_RECEIVING)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=math.nan)
    @pytest.mark.nightly
    def test_refuses_an_option_or_goes_by_it(self, to: Any, name: str, value: Any) -> None:
        if callable(value) and name == "key":
            return  # the caller's function, called with the message
        attempt(lambda: receive_one(to, name, value), PGQueueError)

    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_what_is_no_goal_or_stores_it(self, value: Any) -> None:
        attempt(lambda: receive_external("m", value), PGQueueError)


OF_RECEIVED_WEBHOOKS: Mapping[str, list[Any]] = {
    "to": [None, "a.b", jobs.add],
    "secrets": ["a" * 32, [b"a" * 32, "whsec_" + "b" * 32]],
    "source": ["a", "a.b"],
    "key": [None, "", "k" * 1000],
    "tolerance": [0.5, 60, timedelta(days=15)],
    "max_bytes": [1, 2**31 - 1],
    # At least twice the tolerance.
    "remember_for": [600, CENTURY],
    "database": [None, "default"],
}


class TestAWebhook:
    def test_accepts_each_option(self) -> None:
        def verb(name: str, value: Any) -> object:
            return receive_webhook(**{"secrets": "a" * 32, "source": "a", name: value})

        assert refused(OF_RECEIVED_WEBHOOKS, verb) == []

    @pytest.mark.parametrize("name", OF_RECEIVED_WEBHOOKS)
    @EXAMPLES
    @given(value=ANYTHING)
    @pytest.mark.nightly
    def test_refuses_an_option_or_goes_by_it(self, name: str, value: Any) -> None:
        given = {"secrets": "a" * 32, "source": "a", name: value}
        attempt(lambda: receive_webhook(**given), PGQueueError)


OF_SETTINGS: Mapping[str, list[Any]] = {
    "database": ["default"],
    "default_channel": ["mail", "x" * 200],
    "lease": [0.5, 60, CENTURY],
    "poll_interval": [0.5, 60],
    "threads": [1, 10_000],
    "grace": [0.5, timedelta(minutes=1)],
    "max_attempts": [1, 2**31 - 1],
    "max_lost": [1, 2**31 - 1],
    "backoff": [Exponential(base=1), [1, 2]],
    "retention": [60, CENTURY, {"discarded": 60}, {"succeeded": 60}],
    "dead_retention": [60, CENTURY],
    "export_before_drop": [True, False],
    "keep_connections": [True, False],
    "redact": [[], ["iban"], ["x" * 200, "É", "a-b"]],
    "run_logs": [None, "DEBUG", "INFO", "CRITICAL"],
    "schedules": [{}, {"a": {"task": "tests.jobs.add", "when": "@daily"}}],
}


def configure_project(name: str, value: Any) -> None:
    """Read a setting, and look at what became of it."""
    read = getattr(conf.read({name.upper(): value}), name)
    if name in ("lease", "poll_interval", "grace", "dead_retention"):
        assert read == timedelta(seconds=seconds(value))
    elif name == "backoff":
        assert read == as_backoff(value)
    elif name == "retention" and not isinstance(value, Mapping):
        assert set(read.values()) == {timedelta(seconds=seconds(value))}
    elif name == "schedules":
        assert read.keys() == value.keys()
    elif name == "redact":
        assert read == tuple(value)
    elif name != "retention":
        assert read == value


class TestASetting:
    def test_accepts_each_option(self) -> None:
        assert refused(OF_SETTINGS, configure_project, ImproperlyConfigured) == []

    @pytest.mark.parametrize("name", OF_SETTINGS)
    @EXAMPLES
    @given(value=ANYTHING)
    @example(value=2**31)
    @pytest.mark.nightly
    def test_refuses_an_option_or_reads_it(self, name: str, value: Any) -> None:
        if callable(value) and name == "backoff":
            return
        attempt(lambda: configure_project(name, value), ImproperlyConfigured)
