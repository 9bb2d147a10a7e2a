"""A view that streams the progress of one message, until its end."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from pgqueue.database.connections import borrow
from pgqueue.engine import lookup
from pgqueue.engine.values import Tuples
from pgqueue.events.reading import as_alias
from pgqueue.sse.progress import ENDED, MessageClient
from pgqueue.streams import requests
from pgqueue.streams.requests import HEARTBEAT, View
from pgqueue.values.error_words import shown
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)


@dataclass(frozen=True)
class StreamedMessage:
    """A message that a page asks for, with the values for the decision of `authorize`.

    Attributes:
        metadata: the message's metadata, from its producer.
    """

    id: str
    channel: str
    task: str
    key: str
    metadata: Mapping[str, Any]


Answer: TypeAlias = "bool | HttpResponse | None"
Authorize: TypeAlias = "Callable[[HttpRequest, StreamedMessage], Answer | Awaitable[Answer]]"


def message_stream(
    *,
    authorize: Authorize | None = None,
    heartbeat: float | timedelta = HEARTBEAT,
    database: str | None = None,
) -> View:
    """Return an async view that streams the progress and the end of a message to a page.

        path("messages/<int:id>/", message_stream(authorize=may_see))

    It sends the events waiting, started, progress, retried and ended. After that it answers 204,
    so that a browser does not connect again. It serves the messages of every channel.

    Args:
        authorize: a function of the request and a `StreamedMessage`. It returns True, or an
            HttpResponse in place of the stream. It may be async; only a sync function may use the
            ORM. For False or None, the answer is 404, as for an unknown id. An HttpResponse shows
            that the message exists. None in place of the function: every request is refused.
        heartbeat: the longest silence of a stream.
        database: the alias of the queue's database, if it is not the one of `PGQUEUE`.

    Raises:
        ValueError, TypeError: an argument is invalid.
    """
    requests.checked_hook(authorize)
    patience = requests.as_seconds("heartbeat", heartbeat)
    if database is not None:
        as_alias(database)

    async def view(request: HttpRequest, id: int | str, **kwargs: object) -> HttpResponseBase:
        if refusal := requests.refusal(request):
            return refusal
        if authorize is None:
            return requests.denied()
        alias = as_alias(database)
        message = await sync_to_async(_find)(alias, id)
        if message is None:
            return _hidden()
        answer = await requests.answer_of(authorize, request, message)
        if isinstance(answer, HttpResponse):
            return answer
        if answer is None or answer is False:
            return _hidden()
        if answer is not True:
            raise TypeError(
                f"authorize returned {shown(answer)}: it must return True, False or an "
                "HttpResponse."
            )
        if request.headers.get("Last-Event-ID") == ENDED:
            return HttpResponse(status=204)
        make = partial(MessageClient, int(message.id))
        return requests.respond(request, make, alias=alias, heartbeat=patience)

    return requests.outside_transactions(view)


def _hidden() -> HttpResponse:
    """Return the answer for a message that does not exist, or is not allowed for the request.

    The answer is the same for both. Otherwise, anybody could find out which ids exist, and so the
    number of messages.
    """
    return requests.refused("There is no such message, or this request may not see it.", status=404)


def _find(alias: str, id: int | str) -> StreamedMessage | None:
    """Return a message for the decision of `authorize`; None: there is none."""
    text = str(id)
    if not (text.isascii() and text.isdigit()):
        return None
    with borrow(alias) as connection:
        found = lookup.find(Tuples(connection), int(text[:30]))
    if found is None:
        return None
    try:
        metadata = json.loads(found.metadata)
    except (ValueError, RecursionError):  # from SQL, such as a number of 5 000 digits
        logger.warning("Message #%d is shown to nobody: its metadata can't be read", found.id)
        return None
    return StreamedMessage(str(found.id), found.channel, found.task, found.key, metadata)
