"""Receive webhooks: views that verify the sender, and store each message once."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, NoReturn

from django.db import transaction
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from pgqueue.codec.scalars import as_number
from pgqueue.conf import settings
from pgqueue.database import guard
from pgqueue.exceptions import (
    ChannelFull,
    InvalidArgument,
    InvalidArguments,
    InvalidEvent,
    InvalidMessage,
    InvalidStep,
    MessageEnded,
)
from pgqueue.inbox import receiving
from pgqueue.inbox.receiving import REMEMBERED, receive_external
from pgqueue.inbox.signatures import Unverified, as_secrets, verify
from pgqueue.options.filters import as_topic
from pgqueue.tasks import Task, signalling
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import checked_option, shown
from pgqueue.values.names import as_key
from pgqueue.values.number_checks import as_count, as_duration

Goal = Task[Any, Any] | str | None
Secrets = str | bytes | Iterable[str | bytes]

MEBIBYTE = 2**20
GZIP = 16 + zlib.MAX_WBITS
AGAIN_AFTER = 60  # seconds


def receive_webhook(
    to: Goal | Callable[[Any], Goal] = None,
    *,
    secrets: Secrets | Callable[[HttpRequest], Secrets],
    source: str | Callable[[HttpRequest], str],
    key: str | Callable[[Any], str | None] | None = None,
    signal: Callable[[Any], Mapping[str, Any] | None] | None = None,
    tolerance: float | timedelta = timedelta(minutes=5),
    max_bytes: int = MEBIBYTE,
    remember_for: float | timedelta = REMEMBERED,
    database: str | None = None,
) -> Callable[[HttpRequest], HttpResponse]:
    """Return a view that receives webhooks signed by Standard Webhooks, and stores each once.

        path("hooks/shop", receive_webhook(book, secrets=settings.SHOP_SECRETS, source="shop"))

    The view answers 204 if the message is stored, now or before. Its sender need not repeat it.
    `receive_external` stores it, in the transaction of the request if there is one.

    Args:
        to: the goal of the message's JSON body: a task, or a topic under which it is published. Or
            a function of the body that returns a task or a topic, or None to ignore the message.
            None: the topic is the source, a dot and the body's `type`.
        secrets: the sender's secret: text in base64, with or without "whsec_"; several secrets
            during a rotation. Or a function of the request that returns them.
        source: A name for the sender, or a function of the request that returns it. Senders that
            share the view each need one of their own, since each numbers its messages.
        key: The key of the message or the event, or a function of the body that returns it.
        signal: In place of `to` and `key`: a function of the body that returns the arguments of
            `pgqueue.signal()` as a dict, or None to ignore the message. The payload is the body,
            unless the dict has another one. While no message takes the signal, the view answers
            409, so that the sender tries again.
        tolerance: Seconds or a timedelta. The maximum age of a message, and the maximum lead of its
            sender's clock.
        max_bytes: The maximum size of a body, also after decompression.
        remember_for: Seconds or a timedelta for which its id is remembered. It must be at least
            twice the tolerance, which is the time for which a signature is valid.
        database: The alias of the queue's database, if not the task's or the one of `PGQUEUE`.

    Raises:
        InvalidSecret: a secret is invalid.
        InvalidEvent: `to` is neither a task nor a topic.
        InvalidMessage: another option is invalid.
    """
    if signal is not None and (to is not None or key is not None or not callable(signal)):
        raise InvalidMessage("signal= must be a function of the body, without to= and key=.")
    find: Any = secrets if callable(secrets) else None
    known = _Keys([] if find else as_secrets(secrets))
    goal_of = None if signal else _goal_of(to, source)
    key_of = key if callable(key) else _always(checked_option(_key, "key", key, InvalidMessage))
    seconds = checked_option(as_duration, "tolerance", tolerance, InvalidMessage)
    most = checked_option(as_count, "max_bytes", max_bytes, InvalidMessage)
    options: dict[str, Any] = {
        "remember_for": _remembered(remember_for, seconds),
        "database": checked_message({"database": database})["database"],
    }
    source_of = source if callable(source) else _always(source)
    if not callable(source):
        receiving.known_as("id", source)

    @csrf_exempt
    @require_POST
    def receive(request: HttpRequest) -> HttpResponse:
        try:
            sent = _sent(request, most)
            # guard.call: a user's function that leaves a transaction open would roll back the
            # store below. The keys are in no variable, since error trackers show variables.
            id = _verified(
                request,
                as_secrets(guard.call(find, request)) if find else known.keys,
                *(sent, seconds),
            )
            payload = _parsed(sent[-1])
            sender = guard.call(source_of, request)
            receiving.known_as("id", sender)
            if signal is not None:
                _send(id, guard.call(signal, payload), payload, source=sender, **options)
            elif goal_of and (goal := guard.call(goal_of, payload, sender)) is not None:
                own_key = guard.call(key_of, payload)
                _store(id, goal, payload, key=own_key, source=sender, **options)
        except _MessageRefused as refused:
            return refused.response
        return HttpResponse(status=204)

    return receive


def _remembered(remember_for: Any, tolerance: timedelta) -> timedelta:
    """Return the duration for which an id is remembered: at least the validity of its signature.

    At the first arrival of a request, the sender's clock may be ahead by the tolerance. At its last
    repetition, the clock may be behind by the tolerance.

    Raises:
        InvalidMessage: the duration is shorter, or is invalid.
    """
    lasting = receiving.lasting(remember_for)
    if lasting < 2 * tolerance:
        raise InvalidMessage(
            f"remember_for={shown(remember_for)}: a signature is valid for twice the tolerance, "
            f"{2 * tolerance}. An id that is forgotten earlier would be stored once more, by the "
            "same request. Remember ids for longer, or make the tolerance shorter."
        )
    return lasting


class _Keys:
    """The keys of a view, hidden from error trackers that read the variables of frames."""

    __slots__ = ("keys",)

    def __init__(self, keys: list[bytes]) -> None:
        self.keys = keys


class _MessageRefused(Exception):
    """A message is refused; `response` gives the reason."""

    def __init__(self, status: int, reason: object, **headers: str) -> None:
        super().__init__(status, reason)
        self.response = HttpResponse(
            f"{reason}\n", status=status, content_type="text/plain; charset=utf-8", headers=headers
        )


def _sent(request: HttpRequest, most: int) -> list[bytes]:
    """Return a body as it was sent; after a compressed body, also the decompressed one."""
    try:
        # Not request.body, which has a limit for all views.
        body = request.read(most + 1)
    except UnreadablePostError as error:
        raise _MessageRefused(400, "The body ended early.") from error
    if len(body) > most:
        raise _MessageRefused(413, f"A body may have {most} bytes.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return [body]
    if encoding != "gzip":
        raise _MessageRefused(415, "A body may be compressed only by gzip.")
    return [body, _unzipped(body, most)]


def _unzipped(body: bytes, most: int) -> bytes:
    unzip = zlib.decompressobj(GZIP)
    try:
        plain = unzip.decompress(body, most + 1)
    except zlib.error as error:
        raise _MessageRefused(400, f"The body is no gzip: {error}") from error
    if len(plain) > most:
        raise _MessageRefused(413, f"A body may have {most} bytes, also when it is unzipped.")
    if not unzip.eof or unzip.unused_data:
        raise _MessageRefused(400, "The body is not one whole gzip.")
    return plain


def _verified(
    request: HttpRequest, secrets: Iterable[bytes], bodies: list[bytes], tolerance: timedelta
) -> str:
    try:
        return verify(secrets, request.headers, bodies, tolerance=tolerance, now=time.time())
    except Unverified as error:
        raise _MessageRefused(401, error) from error


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_float=as_number, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        # A sender gives a message up for 422: no message that may be right later gets this answer.
        raise _MessageRefused(422, f"The body is no JSON: {error}") from error


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number.")


def _goal_of(to: Any, source: Any) -> Callable[[Any, str], Goal]:
    """Return a function that returns the goal of a body and its source."""
    if to is None:
        if not callable(source):
            as_topic(source)
        return lambda payload, sender: f"{sender}.{_type_of(payload)}"
    if isinstance(to, Task) or not callable(to):
        goal = to if isinstance(to, Task) else as_topic(to)
        return lambda payload, sender: goal
    return lambda payload, sender: to(payload)


def _type_of(payload: Any) -> str:
    kind = payload.get("type") if isinstance(payload, dict) else None
    if not isinstance(kind, str):
        raise _MessageRefused(400, "The body has no type.")
    return kind


def _store(id: str, goal: Goal, payload: Any, **options: Any) -> None:
    try:
        receive_external(id, goal, payload, **options)
    except ChannelFull as error:
        raise _MessageRefused(503, error, **{"Retry-After": str(AGAIN_AFTER)}) from error
    except (InvalidArguments, InvalidEvent, InvalidMessage) as error:
        # Not a status that ends the sender's attempts: the fault may be on this side.
        raise _MessageRefused(400, error) from error


def _send(id: str, given: Any, payload: Any, *, database: str | None, **options: Any) -> None:
    """Send the signal of a message, once; both are part of one transaction."""
    if given is None:
        return
    if not isinstance(given, Mapping) or "name" not in given:
        raise TypeError(
            f"signal= returned {shown(given)}: it must return the arguments of pgqueue.signal(), "
            '{"message": …, "name": …}, or None.'
        )
    arguments = {"message": None, "payload": payload, "database": database, **given}
    try:
        with transaction.atomic(using=arguments["database"] or settings().database):
            if receive_external(id, database=arguments["database"], **options):
                signalling.signal(arguments.pop("message"), arguments.pop("name"), **arguments)
    except MessageEnded as error:
        # Perhaps the message is not committed yet: the sender tries again.
        raise _MessageRefused(409, error) from error
    except (InvalidArgument, InvalidMessage, InvalidStep) as error:
        raise _MessageRefused(400, error) from error


def _always(value: Any) -> Callable[[Any], Any]:
    return lambda _: value


def _key(value: Any) -> str | None:
    return None if value is None else as_key(value)
