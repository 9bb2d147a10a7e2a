"""The options of a task: the check of each value, and the options that travel with a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypedDict, get_args

import psycopg
from django.db import connections

from pgqueue.exceptions import InvalidMessage, InvalidTask, UnreadablePayload
from pgqueue.options.retries import Backoff, as_backoff, dump_backoff, load_backoff
from pgqueue.options.schedules import as_schedules
from pgqueue.redaction import as_paths
from pgqueue.values.error_words import checked_option, hint, shown
from pgqueue.values.escaping import logger_of
from pgqueue.values.instants import as_instant
from pgqueue.values.json_checks import as_object
from pgqueue.values.log_levels import as_level
from pgqueue.values.names import as_channel, as_key, as_path, as_text
from pgqueue.values.number_checks import LONGEST, as_count, as_flag, as_timedelta

logger = logger_of("pgqueue")

HEAVIEST = 100
"""The most messages that one message counts for. Claims take a greater weight for this one."""
AS_CONFIGURED = ""
"""The value of `logs` for a task that names none: the setting RUN_LOGS."""
COLLECT = "collect"
REPLACING = ("replace", COLLECT)
"""The values of `on_conflict` that change the message that waits."""
CONFLICTS = ("return", *REPLACING, "raise")
LARGEST_BATCH = 1000
"""A worker holds some thousand leases at once: see `worker.fetcher`."""
TAGS = "tags"
"""The key of metadata that has a message's tags."""
MOST_TAGS, TAG_BYTES = 20, 100

Isolation = Literal["read committed", "repeatable read", "serializable"]
Atomic: TypeAlias = "bool | Isolation"


class EventTaskOptions(TypedDict, total=False):
    """The options of tasks whose messages are made of events, too. See `@task`."""

    channel: str | None
    queue_name: str
    priority: int
    weight: int
    max_attempts: int | None
    backoff: Backoff | Sequence[float | timedelta] | None
    timeout: timedelta | float | None
    hard_timeout: timedelta | float | None
    atomic: Atomic
    metadata: Mapping[str, Any]
    database: str | None


class Options(EventTaskOptions, total=False):
    """The options of `@task` and `using()`. Each is documented at `@task`."""

    key: str | Callable[..., str]
    run_after: datetime | timedelta | float | None
    expires_at: datetime | None
    ttl: timedelta | float | None
    ordered: bool
    dedupe_key: str | Callable[..., str | None] | None
    dedupe_for: timedelta | float | None
    on_conflict: Literal["return", "replace", "collect", "raise"]
    longest_wait: timedelta | float | None
    hold_for: timedelta | float | None
    tags: Sequence[str]
    enqueue_on_commit: bool | str
    connection: psycopg.Connection[Any] | None


def checked(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return `options` in the form in which a Task stores them.

    Raises:
        InvalidTask: an option is unknown, or its value is invalid.
    """
    given = {
        ("channel" if name == "queue_name" else name): value for name, value in options.items()
    }
    for name in given:
        if name not in _CHECKS:
            raise InvalidTask(f"A task has no option {name!r}. {hint(name, _CHECKS)}")
    return {name: _check(name, value) for name, value in given.items()}


def check_replacing(
    *,
    on_conflict: str,
    dedupe_for: timedelta | None,
    longest_wait: timedelta | None,
    run_after: datetime | timedelta | None,
    hold_for: timedelta | None,
) -> None:
    """Check the options of messages that replace a waiting one.

    Raises:
        ValueError: `longest_wait` limits nothing, `hold_for` would hold others' messages, or
            `dedupe_for` would keep the payload that is replaced.
    """
    if dedupe_for is not None and on_conflict in REPLACING:
        raise ValueError(
            f"dedupe_for remembers a message after its end, on_conflict={on_conflict!r} replaces "
            "the message. Choose one."
        )
    if hold_for is not None and on_conflict in REPLACING:
        raise ValueError(
            f"hold_for would hold what another caller has stored, if on_conflict={on_conflict!r} "
            "changes it. Choose one."
        )
    if longest_wait is not None and on_conflict not in REPLACING:
        raise ValueError(
            "longest_wait limits how long a message waits that is replaced again and again: it "
            "needs on_conflict='replace' or 'collect'."
        )
    if longest_wait and isinstance(run_after, timedelta) and run_after > longest_wait:
        raise ValueError(
            f"longest_wait={longest_wait.total_seconds():g} is shorter than "
            f"run_after={run_after.total_seconds():g}, for which each message waits."
        )


def _check(name: str, value: Any) -> Any:
    return checked_option(_CHECKS[name], name, value, InvalidTask)


def _channel(value: Any) -> str | None:
    return None if value is None else as_channel(value)


def _key(value: Any) -> str | Callable[..., str]:
    return value if callable(value) else as_key(value)


def _priority(value: Any) -> int:
    return as_count(value, least=-100, most=100)


def _weight(value: Any) -> int:
    return as_count(value, most=HEAVIEST)


def _run_after(value: Any) -> datetime | timedelta | None:
    if value is None:
        return None
    if not isinstance(value, datetime):
        delay = as_timedelta(value)
        if not -LONGEST <= delay <= LONGEST:
            raise ValueError("it may be a hundred years at most.")
        return delay
    return as_instant(value)


def _moment(value: Any) -> datetime | None:
    if value is not None and not isinstance(value, datetime):
        raise TypeError("it must be a datetime; a time from now is a ttl.")
    moment = _run_after(value)
    return moment if isinstance(moment, datetime) else None


def checked_dedupe_key(key: Any) -> str | None:
    """Return `key` if it is a valid dedupe key; None: the message has no duplicates.

    Raises:
        TypeError: `key` is no text.
        ValueError: `key` is empty, too long or not storable.
    """
    if key == "":
        raise ValueError("it must not be empty; None means that there are no duplicates.")
    return None if key is None else as_key(key)


def _dedupe_key(value: Any) -> str | Callable[..., str | None] | None:
    return value if callable(value) else checked_dedupe_key(value)


def _conflict(value: Any, among: Sequence[str] = CONFLICTS) -> str:
    if value not in among:
        raise ValueError(f"it must be one of {', '.join(map(repr, among))}.")
    return str(value)


def _conflict_of_a_message(value: Any) -> str:
    if value == COLLECT:
        raise ValueError("only a task has a list of arguments that collects those of others.")
    return _conflict(value, [each for each in CONFLICTS if each != COLLECT])


def _count(value: Any) -> int | None:
    return None if value is None else as_count(value)


def _duration(value: Any) -> timedelta | None:
    if value is None:
        return None
    duration = as_timedelta(value)
    if duration <= timedelta():
        raise ValueError("it must be longer than 0 seconds.")
    if duration > LONGEST:
        raise ValueError("it may be a hundred years at most.")
    return duration


def _atomic(value: Any) -> Atomic:
    if not isinstance(value, bool) and value not in get_args(Isolation):
        raise ValueError(f"it must be True, False or one of {', '.join(get_args(Isolation))}.")
    return value  # type: ignore[no-any-return]


def _on_commit(value: Any) -> bool | str:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise TypeError("it must be True, False or the alias of a database.")
    return _alias(value) or False


def _alias(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError("it must be the alias of a database.")
    if value is not None and value not in connections.settings:
        raise ValueError(f"DATABASES has no such alias. {hint(value, connections.settings)}")
    return value


def _connection(value: Any) -> psycopg.Connection[Any] | None:
    if value is not None and not isinstance(value, psycopg.Connection):
        raise TypeError("it must be a connection of psycopg's.")
    return value


def _tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError('it must be a list of texts: ["import"].')
    if len(value) > MOST_TAGS:
        raise ValueError(f"a message has {MOST_TAGS} tags at most.")
    tags = tuple(as_text(each, TAG_BYTES) for each in value)
    if not all(tags):
        raise ValueError("a tag must not be empty.")
    return tuple(dict.fromkeys(tags))


def _aliases(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError("it must be a list of import paths.")
    paths = tuple(map(as_path, value))
    if not all("." in path for path in paths):
        raise ValueError("each must be the import path of a function.")
    return paths


def _batch_wait(value: Any) -> timedelta:
    wait = as_timedelta(value)
    if not timedelta() <= wait <= LONGEST:
        raise ValueError("it must be 0 seconds or more, and a hundred years at most.")
    return wait


def _batch_by(value: Any) -> str | None:
    if value not in (None, "key"):
        raise ValueError("it must be 'key' or None.")
    return value  # type: ignore[no-any-return]


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "channel": _channel,
    "key": _key,
    "priority": _priority,
    "weight": _weight,
    "run_after": _run_after,
    "expires_at": _moment,
    "ttl": _duration,
    "ordered": as_flag,
    "dedupe_key": _dedupe_key,
    "dedupe_for": _duration,
    "on_conflict": _conflict,
    "longest_wait": _duration,
    "hold_for": _duration,
    "max_attempts": _count,
    "backoff": lambda value: None if value is None else as_backoff(value),
    "timeout": _duration,
    "hard_timeout": _duration,
    "atomic": _atomic,
    "metadata": as_object,
    "tags": _tags,
    "enqueue_on_commit": _on_commit,
    "database": _alias,
    "connection": _connection,
    "takes_context": as_flag,
    "durable": as_flag,
    "keeps_lane": as_flag,
    "aliases": _aliases,
    "encrypted": as_flag,
    "schedule": as_schedules,
    "redact": as_paths,
    "batch": lambda value: as_count(value, least=1, most=LARGEST_BATCH),
    "batch_wait": _batch_wait,
    "batch_by": _batch_by,
    "logs": as_level,
}


def weight_of(options: Any) -> int:
    """Return the weight that a claim reads in the options of a message."""
    weight = options.get("weight") if isinstance(options, Mapping) else None
    if isinstance(weight, bool) or not isinstance(weight, int | float | Decimal):
        return 1
    return round(min(max(weight, 1), HEAVIEST))


def travelling(
    options: Mapping[str, Any], defaults: Mapping[str, Any], travel: RunOptions
) -> str | None:
    """Return the run options that differ from the task's declaration, as JSON; None: none differs.

    Claims know no declarations: for an option that they read, the declaration's value travels, too,
    unless it is the value that a claim assumes.

    Args:
        travel: the options that travel with a message.

    Raises:
        InvalidTask: a backoff is a function that was not declared.
    """
    changed = {}
    for name, option in travel.items():
        value = options.get(name)
        if value == defaults.get(name) and value == ASSUMED_BY_CLAIMS.get(name, value):
            continue
        try:
            changed[name] = None if value is None else option.dump(value)
        except ValueError as error:
            raise InvalidTask(f"{name}: {error}") from error
    return json.dumps(changed, allow_nan=False) if changed else None


def received(name: str, text: str | bytes, travel: RunOptions) -> dict[str, Any]:
    """Return the options that `travelling` wrote for a message of the task `name`.

    An option of a newer version is left out. A backoff that is not declared here is left out with
    a warning: the task's own backoff applies.

    Raises:
        UnreadablePayload: the value of an option is invalid.
    """
    try:
        found = json.loads(text)
        options = {
            option: None if found[option] is None else travel[option].load(found[option])
            for option in travel.keys() & found.keys()
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadablePayload(f"The options of a message of {name}: {error}") from error
    if isinstance(options.get("backoff"), _Unknown):
        del options["backoff"]
    return options


class _Unknown:
    """A backoff that is not declared here."""


def _known_backoff(described: Any) -> Backoff | _Unknown:
    try:
        return load_backoff(described)
    except (Exception, SystemExit) as error:
        # Also errors of the declaring module at its import.
        _warn_of_backoff(f"{described!r:.200}", f"{error!r:.1000}")
        return _Unknown()


@lru_cache(maxsize=1000)
def _warn_of_backoff(described: str, error: str) -> None:
    """Log the warning once in this process: each message with this backoff calls this."""
    logger.warning(
        "A message has the backoff %s, which is not known here (%s): its task's own applies. "
        "Declare the function with @pgqueue.backoff in a module of the project.",
        described,
        error,
    )


class RunOption(NamedTuple):
    """An option of a task that travels with a message to the worker that runs it.

    Attributes:
        dump: turns a value into JSON.
        load: checks and reads that JSON. Other processes may have written it.
    """

    dump: Callable[[Any], Any]
    load: Callable[[Any], Any]


RunOptions: TypeAlias = "Mapping[str, RunOption]"

LIMIT = RunOption(timedelta.total_seconds, _duration)
"""A number of seconds."""

# Every other option is a column of the message, or concerns only the producer.
RUN_OPTIONS: RunOptions = {
    "backoff": RunOption(dump_backoff, _known_backoff),
    "timeout": LIMIT,
    "hard_timeout": LIMIT,
    "atomic": RunOption(_atomic, _atomic),
    "weight": RunOption(_weight, _weight),
}
ASSUMED_BY_CLAIMS: Mapping[str, Any] = {"weight": 1}
"""The value of each option that claims read, for a message whose options lack it."""
READ_BY_CLAIMS: RunOptions = {name: RUN_OPTIONS[name] for name in ASSUMED_BY_CLAIMS}


class MessageOptions(TypedDict, total=False):
    """The options of `send()` that are the same for all messages of a call. See `send()`."""

    priority: int
    weight: int
    run_after: datetime | timedelta | float | None
    expires_at: datetime | None
    ttl: timedelta | float | None
    ordered: bool
    dedupe_for: timedelta | float | None
    on_conflict: Literal["return", "replace", "raise"]
    longest_wait: timedelta | float | None
    hold_for: timedelta | float | None
    metadata: Mapping[str, Any]
    max_attempts: int | None


def checked_message(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message's options in the form in which they are stored.

    Raises:
        InvalidMessage: an option is unknown, or its value is invalid.
    """
    for name in options:
        if name not in _OF_A_MESSAGE:
            raise InvalidMessage(f"A message has no option {name!r}. {hint(name, _OF_A_MESSAGE)}")
    checked = {}
    for name, value in options.items():
        try:
            checked[name] = _OF_A_MESSAGE[name](value)
        except (TypeError, ValueError) as error:
            raise InvalidMessage(f"{name}={shown(value)}: {error}") from error
    try:
        check_replacing(
            on_conflict=checked.get("on_conflict", "return"),
            dedupe_for=checked.get("dedupe_for"),
            longest_wait=checked.get("longest_wait"),
            run_after=checked.get("run_after"),
            hold_for=checked.get("hold_for"),
        )
    except ValueError as error:
        raise InvalidMessage(str(error)) from error
    return checked


def _named_channel(value: Any) -> str:
    channel = _channel(value)
    if channel is None:
        raise ValueError("it must be a name.")
    return channel


def _body(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("it must be bytes.")
    return bytes(value)


_OF_A_MESSAGE: dict[str, Callable[[Any], Any]] = {
    "channel": _named_channel,
    "key": as_key,
    "body": _body,
    "dedupe_key": checked_dedupe_key,
    "priority": _priority,
    "weight": _weight,
    "run_after": _run_after,
    "expires_at": _moment,
    "ttl": _duration,
    "ordered": as_flag,
    "dedupe_for": _duration,
    "on_conflict": _conflict_of_a_message,
    "longest_wait": _duration,
    "hold_for": _duration,
    "metadata": as_object,
    "max_attempts": _count,
    "database": _alias,
}
