"""The options of subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypedDict

from django.utils.translation import gettext_lazy as _

from pgqueue.options.filters import as_filter, as_place
from pgqueue.options.records import Option, Record, optional
from pgqueue.options.sql_conditions import as_predicate
from pgqueue.options.starts import Start, as_start
from pgqueue.values.json_checks import as_object
from pgqueue.values.names import KEY_LIMIT, as_channel, as_text
from pgqueue.values.number_checks import as_count, as_duration, as_flag

NAME_LIMIT = 500
MOST_EVENTS = 10_000


class SharedOptions(TypedDict, total=False):
    """The options of all subscriptions: declared, made at run time, and webhooks."""

    where: Mapping[str, Any] | None
    predicate: str
    params: Mapping[str, Any] | None
    ordered: bool
    batch: int | None
    split_by: str
    start: Start
    expires_after: float | timedelta | None


class SubscriptionOptions(SharedOptions, total=False):
    """The options of `subscriptions.create()`. See `OPTIONS`."""

    topics: str | Iterable[str] | None
    channel: str | None
    key: str


def checked_name(value: Any) -> str:
    """Return `value` if it is a valid name of a subscription.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    if value == "":
        raise ValueError("it must be a name.")
    return as_text(value, NAME_LIMIT)


def _topics(value: Any) -> list[str]:
    return list(as_filter(value, None).topics)


def _where(value: Any) -> dict[str, Any]:
    return dict(as_filter(None, value).where)


def _place(value: Any) -> str:
    return as_place(value, KEY_LIMIT).text


def _events(value: Any) -> int:
    return as_count(value, most=MOST_EVENTS)


OPTIONS: Record = {
    "topics": Option(
        about='patterns such as "order.paid", "order.*" or "order.**", of which one must match.',
        check=_topics,
        default_words="all topics",
        help=_("order.paid, order.*, order.**"),
        section="filter",
        is_matched=True,
        names_itself=True,
    ),
    "where": Option(
        about='conditions on payloads: `{"total__gte": 100, "customer__country": "DE"}`.',
        check=_where,
        default_words="none",
        section="filter",
        is_json=True,
        is_matched=True,
        names_itself=True,
    ),
    "predicate": Option(
        about="a further condition in SQL over an event `e` (position, topic, key, payload, "
        "metadata, created_at) and this subscription `s` (name, params). It may use the built-in "
        "functions of PostgreSQL, and no tables.",
        check=as_predicate,
        default="",
        default_words="none",
        help=_("SQL over an event e and a subscription s: e.key = s.params ->> 'key'"),
        section="filter",
    ),
    "params": Option(
        about="a dict that the predicate reads as `s.params`. Subscriptions that differ only in "
        "their params are matched together.",
        check=optional(as_object, dict),
        default_words="none",
        help=_("What the predicate knows as s.params."),
        section="filter",
        is_json=True,
    ),
    "channel": Option(
        about="the channel of its messages. Raw messages need one.",
        check=optional(as_channel),
        default_words="the task's",
        section="messages",
    ),
    "key": Option(
        about='the key of its messages: a text, "{key}" (the event\'s), "{topic}" or '
        '"{payload.customer.id}".',
        check=_place,
        default="",
        default_words="none",
        help=_("Of its messages: a text, {key}, {topic} or {payload.name}."),
        section="messages",
        is_matched=True,
    ),
    "ordered": Option(
        about="run the messages of a key one at a time, in the order of the log. Messages that "
        "are enqueued directly have no order relative to them.",
        check=as_flag,
        default=False,
        default_words="`False`",
        help=_("Run them one by one, in the log's order."),
        section="messages",
    ),
    "batch": Option(
        about=f"the maximum number of events in a list, up to {MOST_EVENTS}. A retry gets exactly "
        "the same list. None: one event at a time.",
        check=optional(_events),
        default_words="one event at a time",
        help=_("Events in one message, at most. Empty: one."),
        section="messages",
    ),
    "split_by": Option(
        about="a text in the form of `key`: each list has only events with the same value of it. "
        "It needs `batch`.",
        check=_place,
        default="",
        default_words="none",
        help=_("Batch only events that agree in this: {key}, {topic} or {payload.name}."),
        section="messages",
        is_matched=True,
    ),
    "start": Option(
        about='the start of a new subscription: "now", the "beginning", a position (events after '
        "it), or a time.",
        check=as_start,
        default="now",
        default_words='`"now"`',
        section="start",
        is_column=False,
    ),
    "expires_after": Option(
        about="seconds or a timedelta after which the subscription ends, unless a worker declares "
        "it again or `renew()` is called.",
        check=optional(as_duration),
        default_words="never",
        help=_("It is deleted unless it is renewed for so long."),
        section="expiry",
    ),
}
"""Each option by its name, in the order of forms, lists and docs."""
COLUMNS = tuple(name for name, each in OPTIONS.items() if each.is_column)
MATCHED = frozenset(name for name, each in OPTIONS.items() if each.is_matched)
OF_THE_TASK = ("channel", "ordered")
"""The options that a declared subscription takes from its task."""
DECLARED: Record = {name: each for name, each in OPTIONS.items() if name not in OF_THE_TASK}
