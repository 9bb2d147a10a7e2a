"""A view that streams events of the log to authorized browsers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from pgqueue.events.reading import MOST, as_alias, check_condition
from pgqueue.exceptions import InvalidFilter
from pgqueue.options.filters import Filter, as_filter
from pgqueue.options.sql_conditions import as_sql_condition
from pgqueue.sse.feed import EventClient
from pgqueue.sse.missed import ReplayLimits
from pgqueue.streams import requests
from pgqueue.streams.client import MOST_EVENTS
from pgqueue.streams.requests import HEARTBEAT, View
from pgqueue.values.error_words import shown
from pgqueue.values.number_checks import as_count

MAX_AGE = timedelta(minutes=5)
MOST_TOPICS = 50
LONGEST_WHERE = 2000
LONGEST_ID = 100
ID = re.compile(r"([0-9]+)(?:-([0-9a-f]{16}))?")
"""Characters."""

Answer: TypeAlias = "bool | Filter | HttpResponse | None"
Authorize: TypeAlias = "Callable[[HttpRequest, Filter], Answer | Awaitable[Answer]]"


def event_stream(
    *,
    authorize: Authorize | None = None,
    topics: str | Iterable[str] | None = None,
    where: Mapping[str, Any] | None = None,
    predicate: str = "",
    params: Mapping[str, Any] | None = None,
    max_events: int = MOST_EVENTS,
    max_age: float | timedelta = MAX_AGE,
    heartbeat: float | timedelta = HEARTBEAT,
    database: str | None = None,
) -> View:
    """Return an async view that streams new events as server-sent events.

        path("events/", event_stream(authorize=may_see, topics="order.*"))

    A request may narrow them: `?topic=order.paid&topic=order.shipped&where={"total__gte":100}`.

    Args:
        authorize: a function of the request and its filter. It returns True, a filter that
            narrows the request's filter, or an HttpResponse in place of the stream. It may be
            async; only a sync function may use the ORM. None: every request is refused.
        topics: patterns of the offered topics. None: all topics.
        where: conditions that each event must meet, in addition to the request's conditions.
        predicate: a further condition in SQL, as subscriptions have it. It reads an event `e`
            (position, topic, key, payload, metadata, created_at) and `s.params`. "": none. The
            first request raises InvalidFilter for an invalid one.
        params: a dict that the predicate reads as `s.params`.
        max_events, max_age: the maximum of missed events for a browser that connects again, and
            their maximum age. With more, it gets the event `pgqueue.reset`.
        heartbeat: the longest silence of a stream.
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.

    Raises:
        InvalidFilter: the topics or the conditions are invalid.
        ValueError, TypeError: another argument is invalid.
    """
    requests.checked_hook(authorize)
    offered = replace(as_filter(topics, where), condition=as_sql_condition(predicate, params))
    try:
        events = as_count(max_events, least=0)
    except ValueError as error:
        raise ValueError(f"max_events={shown(max_events)}: {error}") from error
    limits = ReplayLimits(events, requests.as_seconds("max_age", max_age))
    patience = requests.as_seconds("heartbeat", heartbeat)
    if database is not None:
        as_alias(database)

    async def view(request: HttpRequest, **kwargs: object) -> HttpResponseBase:
        if refusal := requests.refusal(request):
            return refusal
        try:
            asked = _asked(request, offered)
        except ValueError as error:
            return requests.refused(str(error), status=400)
        try:
            answer = await requests.answer_of(authorize, request, asked)
            if isinstance(answer, Filter):
                # The project's filter may lack the conditions of this view and of the request.
                asked, answer = asked.narrowed(answer), True
        except InvalidFilter as error:
            return requests.refused(str(error), status=400)
        if isinstance(answer, HttpResponse):
            return answer
        if answer is None or answer is False:
            return requests.denied()
        if answer is not True:
            raise TypeError(
                f"authorize returned {shown(answer)}: it must return True, False, a Filter or an "
                "HttpResponse."
            )
        if offered.condition:
            await sync_to_async(check_condition)(as_alias(database), offered.condition)
        # A browser that connects again sends the header. A script can only set the address.
        seen = request.headers.get("Last-Event-ID") or request.GET.get("last_event_id", "")
        seen = seen[:LONGEST_ID]
        after, mark = _as_position(seen)
        make = partial(
            EventClient, asked, last_event_id=seen, after=after, mark=mark, limits=limits
        )
        return requests.respond(request, make, alias=as_alias(database), heartbeat=patience)

    return requests.outside_transactions(view)


def _asked(request: HttpRequest, offered: Filter) -> Filter:
    """Return the filter of a request, narrowed by the filter of the view.

    Raises:
        ValueError: a parameter of the request is invalid.
    """
    topics, where = request.GET.getlist("topic"), request.GET.get("where", "")
    if len(topics) > MOST_TOPICS:
        raise ValueError(f"topic: a request may have {MOST_TOPICS} of them at most.")
    if len(where) > LONGEST_WHERE:
        raise ValueError(f"where: it may have {LONGEST_WHERE} characters at most.")
    return offered.narrowed(Filter(tuple(topics), requests.parsed("where", where) if where else {}))


def _as_position(last_event_id: str) -> tuple[int | None, str]:
    """Return the position and the mark of an id; None: it is no id; "": it has no mark."""
    found = ID.fullmatch(last_event_id)
    if not found:
        return None, ""
    # A larger number than the largest position is ahead of the log as well.
    return min(int(found[1]), MOST), found[2] or ""
