"""The common parts of the streaming views: authorization, and the response."""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

from asgiref.sync import SyncToAsync, iscoroutinefunction, sync_to_async
from django.core.exceptions import ImproperlyConfigured
from django.core.handlers.asgi import ASGIRequest
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, StreamingHttpResponse
from django.http.response import HttpResponseBase

from pgqueue.database import guard
from pgqueue.streams import wire
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.number_checks import as_duration

View: TypeAlias = "Callable[..., Coroutine[Any, Any, HttpResponseBase]]"

HEARTBEAT = timedelta(seconds=15)
"""Proxies close connections that are silent for 30 or 60 seconds."""
RETRY = 1.0, 3.0
"""Seconds, drawn at random, so that clients do not all connect at once after a restart."""
DENIED = "This stream has no authorize=, or authorize does not allow this request."


class Streamed(Protocol):
    """The interface of a client for a streaming view."""

    def join(self, alias: str) -> None:
        """Join the source of the stream."""

    def leave(self) -> None:
        """Leave the source of the stream."""

    def beat(self) -> bytes:
        """Return a heartbeat."""

    async def next(self, patience: float) -> bytes | None:
        """Return the next chunk; b"": no chunk came in time; None: the stream is over."""


def refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a request that is invalid for a stream; None: the request is valid.

    Raises:
        ImproperlyConfigured: the server is no ASGI server.
    """
    if not isinstance(request, ASGIRequest):
        raise ImproperlyConfigured(
            "A stream of events needs an ASGI server, such as uvicorn: under WSGI it would take up "
            "a thread for as long as the page is open. Run the project's asgi.py."
        )
    return None if request.method == "GET" else HttpResponseNotAllowed(["GET"])


async def answer_of(authorize: Callable[..., Any] | None, *arguments: Any) -> Any:
    """Return the answer of the project's function; False: there is no function.

    Raises:
        TransactionLeftOpen: the function left a transaction open in its thread, which other
            requests share.
        RuntimeError: the function raised an error that would end the process.
    """
    if authorize is None:
        return False
    try:
        if iscoroutinefunction(authorize):
            return await authorize(*arguments)
        answer = await sync_to_async(guard.call)(authorize, *arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        # The error would end the server's event loop, and with it all other streams.
        raise RuntimeError(f"authorize ended with {type(error).__name__}.") from error


def denied() -> HttpResponse:
    """Return the answer to an unauthorized request."""
    return refused(DENIED, status=403)


def refused(text: str, *, status: int) -> HttpResponse:
    """Return an answer in plain text, after which a browser does not connect again."""
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")


def respond(
    request: HttpRequest, make: Callable[[], Streamed], *, alias: str, heartbeat: timedelta
) -> StreamingHttpResponse:
    """Return the response that streams to one client. `make` is called when the stream begins."""
    # GZipMiddleware would hold events back until it has a full block.
    request.META.pop("HTTP_ACCEPT_ENCODING", None)
    return StreamingHttpResponse(
        _stream(make, alias, heartbeat.total_seconds()),
        content_type=wire.CONTENT_TYPE,
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _stream(
    make: Callable[[], Streamed], alias: str, heartbeat: float
) -> AsyncIterator[bytes]:
    # This code runs only when a server iterates over the response. So an unused response
    # leaves no client behind.
    _let_thread_go()
    # From here on nothing may call sync_to_async: that would make a thread for the whole stream.
    client = make()
    client.join(alias)
    try:
        yield wire.retry(timedelta(seconds=random.uniform(*RETRY)))  # noqa: S311
        while (chunk := await client.next(heartbeat)) is not None:
            yield chunk or client.beat()
    finally:
        client.leave()


def _let_thread_go() -> None:
    """End the thread of this request's synchronous code, and the thread's database connections.

    asgiref keeps the thread until the response ends, and a stream lasts for hours. So each open
    page whose session was read would keep a thread and a database connection.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    if context and (executor := SyncToAsync.context_to_thread_executor.pop(context, None)):
        executor.submit(connections.close_all)
        executor.shutdown(wait=False)


def outside_transactions(view: View) -> View:
    """Return a view outside of ATOMIC_REQUESTS, which Django refuses for async views.

    A stream lasts for hours, and a transaction must not.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def as_seconds(name: str, value: Any) -> timedelta:
    """Return an option of a view as a duration.

    Raises:
        ValueError: the value is no valid duration.
    """
    return checked_option(as_duration, name, value)


def parsed(name: str, text: str) -> Mapping[str, Any]:
    """Return a parameter's JSON object as a dict.

    Raises:
        ValueError: the text is no JSON object.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}={shown(text)}: it is no JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name}={shown(text)}: it must be a JSON object of conditions.")
    return value


def checked_hook(authorize: Any) -> None:
    """Refuse an `authorize` that is no function.

    Raises:
        TypeError: the value is neither a function nor None.
    """
    if authorize is not None and not callable(authorize):
        raise TypeError(f"authorize={shown(authorize)}: it must be a function.")
