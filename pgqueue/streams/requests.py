"""What views of streams have in common: who may see what, and the response."""

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
"""Proxies close what is silent for 30 or 60 seconds."""
RETRY = 1.0, 3.0
"""Seconds: those that a restart cuts off do not come back in the same moment."""
DENIED = "This stream has no authorize=, or it does not allow this."


class Streamed(Protocol):
    """A client, from where it joins to where it leaves."""

    def join(self, alias: str) -> None:
        """Be served."""

    def leave(self) -> None:
        """Be served no more."""

    def beat(self) -> bytes:
        """Return what is sent while there is nothing."""

    async def next(self, patience: float) -> bytes | None:
        """Return what is to be sent next; b"": nothing yet; None: it is over."""


def refusal(request: HttpRequest) -> HttpResponse | None:
    """Return what a request that can't be for a stream is answered with.

    Raises:
        ImproperlyConfigured: the server is none for ASGI.
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
        TransactionLeftOpen: it left one open in its thread, which other requests share.
        RuntimeError: it wanted to end the process.
    """
    if authorize is None:
        return False
    try:
        if iscoroutinefunction(authorize):
            return await authorize(*arguments)
        answer = await sync_to_async(guard.call)(authorize, *arguments)
        return await answer if inspect.isawaitable(answer) else answer
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        # It would end the server's loop, and with it all other streams.
        raise RuntimeError(f"authorize ended with {type(error).__name__}.") from error


def denied() -> HttpResponse:
    """Return the answer to who may not see it."""
    return refused(DENIED, status=403)


def refused(text: str, *, status: int) -> HttpResponse:
    """Return an answer in plain text. A browser does not come back after one."""
    return HttpResponse(text, status=status, content_type="text/plain; charset=utf-8")


def respond(
    request: HttpRequest, make: Callable[[], Streamed], *, alias: str, heartbeat: timedelta
) -> StreamingHttpResponse:
    """Return the response that streams to one client, which is made when the stream begins."""
    # GZipMiddleware would hold events back until a block is full.
    request.META.pop("HTTP_ACCEPT_ENCODING", None)
    return StreamingHttpResponse(
        _stream(make, alias, heartbeat.total_seconds()),
        content_type=wire.CONTENT_TYPE,
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )


async def _stream(
    make: Callable[[], Streamed], alias: str, heartbeat: float
) -> AsyncIterator[bytes]:
    # A response that no server iterates over never gets here: so nothing is left of it.
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
    """End the thread that this request's synchronous code had, and its database connections.

    asgiref keeps it until the response ends. For a stream that is hours: a thread, and a connection
    of the database, for each open page whose session was looked up.
    """
    context = SyncToAsync.thread_sensitive_context.get(None)
    if context and (executor := SyncToAsync.context_to_thread_executor.pop(context, None)):
        executor.submit(connections.close_all)
        executor.shutdown(wait=False)


def outside_transactions(view: View) -> View:
    """Return a view that ATOMIC_REQUESTS, which Django refuses for async views, leaves alone.

    A stream lasts for hours: no transaction may.
    """
    for alias in connections:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


def as_seconds(name: str, value: Any) -> timedelta:
    """Return a duration of a view.

    Raises:
        ValueError: it can't be.
    """
    return checked_option(as_duration, name, value)


def parsed(name: str, text: str) -> Mapping[str, Any]:
    """Return the JSON object of a parameter.

    Raises:
        ValueError: it is none.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}={shown(text)}: it is no JSON ({error}).") from error
    if not isinstance(value, dict):
        raise ValueError(f"{name}={shown(text)}: it must be a JSON object of conditions.")
    return value


def checked_hook(authorize: Any) -> None:
    """Say no to what can't be asked.

    Raises:
        TypeError: it is no function.
    """
    if authorize is not None and not callable(authorize):
        raise TypeError(f"authorize={shown(authorize)}: it must be a function.")
