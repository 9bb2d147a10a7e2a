"""Options that can be anything: each is refused by an error of ours, or does what it says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import transaction
from hypothesis import HealthCheck, example, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from pgqueue import Channel, PGQueueError, Schedule, conf, send
from pgqueue.exceptions import NotMigrated
from pgqueue.models import Message, Policy
from tests import jobs

pytestmark = pytest.mark.django_db

EXAMPLES = profile(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

NUMBERS = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([2**31 - 1, 2**31, 2**63, -(2**31), 10**400, math.nan, math.inf, -math.inf]),
    st.sampled_from([1e-320, 5e-324, 1e308, 0.1, -0.0, 1e15]),
)
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(codec=None)),  # with lone surrogates
    st.sampled_from(["", " ", "\x00", "a\x00b", "\ud800", "x" * 2000, "é" * 501, "default", "%s"]),
)
MOMENTS = st.one_of(
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(
        [
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        ]
    ),
)
ANYTHING = st.one_of(
    *(st.none(), st.booleans(), NUMBERS, TEXTS, MOMENTS, st.timedeltas(), st.binary()),
    *(st.lists(NUMBERS, max_size=3), st.dictionaries(TEXTS, NUMBERS, max_size=2)),
    st.sampled_from([Decimal(3), object(), len, int, [[]], {"a": object()}, {1: 2}, {"a": "\x00"}]),
)


class _RolledBack(Exception):
    pass


def attempt(verb: Callable[[], Any], *ours: type[BaseException]) -> bool:
    """Return whether it was accepted; any other error than ours fails the test."""
    try:
        with transaction.atomic():
            verb()
            raise _RolledBack
    except _RolledBack:
        return True
    except NotMigrated:
        raise  # PostgreSQL knew no such function: a value has the wrong type
    except ours:
        return False


def seconds(value: Any) -> float:
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def about(left: datetime | None, right: datetime) -> bool:
    return left is not None and abs(left - right) < timedelta(minutes=1)


def is_same(stored: Any, given: Any) -> bool:
    """Return whether two JSON values are the same; jsonb makes a whole number of 4e16."""
    if isinstance(given, dict):
        return stored.keys() == given.keys() and all(is_same(stored[k], given[k]) for k in given)
    return stored == given or (isinstance(given, float) and float(stored) == given)


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
    "run_after": due,
    "expires_at": lambda message, value: message.expires_at == value,
    "ttl": lambda message, value: (
        message.expires_at is None
        if value is None
        else about(message.expires_at, message.created_at + timedelta(seconds=seconds(value)))
    ),
    "ordered": lambda message, value: message.ordered == value,
    "dedupe_key": lambda message, value: message.dedupe_key == value,
    "dedupe_for": lambda message, value: True,
    "on_conflict": lambda message, value: value in ("return", "replace", "raise"),
    "hold_for": lambda message, value: (message.state == "held") == (value is not None),
    "max_attempts": lambda message, value: message.max_attempts == (5 if value is None else value),
    "backoff": lambda message, value: True,
    "timeout": lambda message, value: (
        value is None or (message.options or {}).get("timeout") == seconds(value)
    ),
    "atomic": lambda message, value: (message.options or {}).get("atomic", False) == value,
    "metadata": lambda message, value: is_same(message.metadata, value),
    "enqueue_on_commit": lambda message, value: value is False,
    "database": lambda message, value: value in (None, "default"),
    "connection": lambda message, value: value is None,
}


@pytest.mark.parametrize("name", STORED)
@EXAMPLES
@given(value=ANYTHING)
@example(value=2**31)
@example(value=math.nan)
@example(value=timedelta.max)
@example(value=timedelta.min)
def test_an_option_of_a_task_is_refused_or_stored(name: str, value: Any) -> None:
    if callable(value) and name in ("key", "dedupe_key", "backoff"):
        return  # the caller's function, called with the arguments

    def enqueue() -> None:
        result = jobs.add.using(**{name: value}).enqueue(1)
        if name == "enqueue_on_commit" and value is not False:
            return  # stored at a commit, which this test does not have
        message = Message.objects.get(pk=result.id)
        assert STORED[name](message, value), (name, value)

    attempt(enqueue, PGQueueError)


@pytest.mark.parametrize(
    "name",
    [
        *("channel", "payload", "body", "key", "dedupe_key", "id", "priority", "run_after"),
        *("expires_at", "ttl", "ordered", "dedupe_for", "on_conflict", "hold_for", "metadata"),
        "max_attempts",
    ],
)
@EXAMPLES
@given(value=ANYTHING)
@example(value=2**31)
@example(value=math.nan)
def test_an_option_of_send_is_refused_or_stored(name: str, value: Any) -> None:
    def store() -> None:
        id = send(**{"channel": "mail", name: value})
        message = Message.objects.get(pk=id)
        if name in STORED:
            assert STORED[name](message, value), (name, value)

    attempt(store, PGQueueError)


@pytest.mark.parametrize(
    "name", ["max_running", "rate", "per", "burst", "max_size", "weight", "key", "each_key"]
)
@EXAMPLES
@given(value=ANYTHING)
def test_an_option_of_a_policy_is_refused_or_stored(name: str, value: Any) -> None:
    others = {"burst": {"rate": 1}, "per": {"rate": 1}, "weight": {"each_key": True}}
    rest = others.get(name, {"max_running": 1})

    def state() -> None:
        Channel("mail").policy(**{**rest, name: value})
        policy = Policy.objects.get()
        if name in ("max_running", "max_size", "burst", "weight", "rate"):
            assert getattr(policy, name) == value
        elif name == "per":
            assert policy.per == timedelta(seconds=seconds(value))

    attempt(state, PGQueueError)


@EXAMPLES
@given(name=TEXTS)
def test_the_name_of_a_channel_is_refused_or_stored(name: str) -> None:
    def state() -> None:
        Channel(name).policy(max_running=1)
        assert Policy.objects.get().channel == name

    attempt(state, PGQueueError)


@pytest.mark.parametrize(
    "name", ["when", "timezone", "name", "args", "kwargs", "missed", "overlap"]
)
@EXAMPLES
@given(value=ANYTHING)
def test_an_option_of_a_schedule_is_refused_or_kept(name: str, value: Any) -> None:
    def declare() -> None:
        schedule = Schedule(**{"when": "@daily", name: value})
        assert getattr(schedule, name) == value
        assert schedule.rhythm

    attempt(declare, PGQueueError)


@pytest.mark.parametrize(
    "name",
    [
        *("database", "default_channel", "lease", "poll_interval", "threads", "grace"),
        *("max_attempts", "max_lost", "backoff", "retention", "dead_retention"),
        *("keep_connections", "schedules"),
    ],
)
@EXAMPLES
@given(value=ANYTHING)
@example(value=2**31)
def test_a_setting_is_refused_or_read(name: str, value: Any) -> None:
    if callable(value) and name == "backoff":
        return
    attempt(lambda: conf.read({name.upper(): value}), ImproperlyConfigured)


COMMANDS = {
    "policy": [*("--key", "--max-running", "--rate", "--per", "--burst", "--max-size", "--weight")],
    "retention": ["--history", "--succeeded", "--dead"],
    "trim": ["--older-than", "--keep"],
    "purge": ["--id", "--task", "--key", "--older-than"],
}


@pytest.mark.parametrize("verb", COMMANDS)
@EXAMPLES
@given(data=st.data())
def test_an_option_of_the_command_for_channels_is_refused_or_obeyed(
    verb: str, data: st.DataObject
) -> None:
    option = data.draw(st.sampled_from(COMMANDS[verb]))
    value = data.draw(st.one_of(TEXTS, NUMBERS.map(str)))

    def run() -> None:
        try:
            call_command("pgqueue_channel", verb, "mail", f"{option}={value}", verbosity=0)
        except SystemExit as error:
            raise CommandError(str(error)) from error

    attempt(run, CommandError)


@pytest.mark.parametrize(
    "option",
    [
        *("--threads", "--processes", "--async", "--max-tasks", "--max-memory", "--grace"),
        *("--channel", "--exclude", "--database", "--liveness-file"),
    ],
)
@EXAMPLES
@given(value=st.one_of(TEXTS, NUMBERS.map(str)))
@example(value="²")
@example(value="9" * 400)
def test_an_option_of_runworker_is_refused_or_configures_it(option: str, value: str) -> None:
    from pgqueue.management.commands.runworker import Command

    command = Command()
    parser = command.create_parser("manage.py", "runworker")

    def configure() -> None:
        parsed = parser.parse_args([f"{option}={value}"])
        command._configuration(vars(parsed))

    def run() -> None:
        try:
            configure()
        except SystemExit as error:
            raise CommandError(str(error)) from error

    attempt(run, CommandError)
