"""Send signals to messages of durable tasks."""

from __future__ import annotations

from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db import connections

from pgqueue.codec.arguments import dump_small, parse, read
from pgqueue.codec.encoding import ANYTHING, Hint, PayloadHint, needs_hint
from pgqueue.conf import settings
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import signalling as engine
from pgqueue.engine.values import Cursors
from pgqueue.exceptions import InvalidArgument, InvalidStep, MessageEnded, UnknownTask
from pgqueue.tasks import encryption, registry, tenants
from pgqueue.tasks.current import running_in
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.error_words import shown
from pgqueue.values.names import as_key, as_text

NAME_BYTES = 180
SIGNAL = "signal"
"""The name of its part of a message, for encryption."""

IfEnded = Literal["raise", "ignore"]


def signal(
    message: Any,
    name: str,
    payload: Any = None,
    *,
    dedupe_key: str | None = None,
    channel: str | None = None,
    dedupe_id: str | None = None,
    if_ended: IfEnded = "raise",
    database: str | None = None,
) -> bool:
    """Send a signal to a message: `DurableContext.wait_for` returns its payload.

    The signal is part of the transaction that is open on the queue's database. It is kept if it
    comes before the wait.

    Args:
        message: a result, or the message's id; None: see `dedupe_key`.
        name: the name that the message waits for.
        payload: a value as of a task's argument. It takes 64 KiB as JSON at most.
        dedupe_key: in place of `message`, the dedupe key of a live message of `channel`, and of the
            tenant that is entered.
        channel: None: the default channel.
        dedupe_id: the sender's own text for this signal. Sent again, it counts once.
        if_ended: "raise": raise MessageEnded if the message has ended; "ignore": return False.
        database: the alias of the queue's database; None: the one of the result, or of `PGQUEUE`.

    Returns:
        Whether the signal was stored: not if it was sent before, or if the message has ended.

    Raises:
        MessageEnded: the message has ended, or there is none.
        InvalidStep: an option is invalid.
        InvalidArgument: the payload is not storable.
    """
    task = getattr(message, "task", None)
    alias = database or (settings().database if task is None else task.alias)
    _check(name, dedupe_id, if_ended)
    text = encoded(name, payload)
    with needing_tables(alias):
        id = _id(alias, message, dedupe_key, channel)
        sent: engine.Sent = "ended"
        own = None if id is None else task or _task_of(connections[alias], id)
        if id is not None and own is not None:
            text = encryption.enveloped(own.name, SIGNAL, text) if own.encrypted else text
            sent = engine.send(connections[alias], id, name, text, dedupe_id, running_in(alias))
    if sent == "ended" and if_ended == "raise":
        raise MessageEnded(f"The signal {name!r} reaches {_nothing(message, dedupe_key, channel)}")
    return sent == "sent"


async def asignal(
    message: Any,
    name: str,
    payload: Any = None,
    *,
    dedupe_key: str | None = None,
    channel: str | None = None,
    dedupe_id: str | None = None,
    if_ended: IfEnded = "raise",
    database: str | None = None,
) -> bool:
    """Send a signal, from async code."""
    return await sync_to_async(signal)(
        message,
        name,
        payload,
        dedupe_key=dedupe_key,
        channel=channel,
        dedupe_id=dedupe_id,
        if_ended=if_ended,
        database=database,
    )


def _task_of(connection: Cursors, id: int) -> Declaration[Any, Any] | None:
    """Return the task of a live message.

    Raises:
        UnknownTask: it is not known here, so that nobody knows whether its signals are encrypted.
    """
    name = engine.task_of(connection, id)
    if name is None:
        return None
    if (task := registry.find(name)) is None:
        raise UnknownTask(f"Message {id} is of {name!r}, which is not known here.")
    return task


def _nothing(message: Any, dedupe_key: str | None, channel: str | None) -> str:
    if message is not None:
        return f"no message {message}: it has ended, or does not exist."
    own = channel or settings().default_channel
    return (
        f"no message with the dedupe key {dedupe_key!r} in the channel {own!r}: none is live "
        "there. It has ended, is dead, or is in another channel (channel=)."
    )


def _id(alias: str, message: Any, dedupe_key: str | None, channel: str | None) -> int | None:
    if message is None:
        if not dedupe_key:
            raise InvalidStep("signal() needs a message, or a dedupe_key=.")
        own = channel or settings().default_channel
        own_key = tenants.own_key(dedupe_key, {})
        try:
            key = as_key(own_key)
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"dedupe_key={shown(dedupe_key)}: {error}") from error
        return engine.with_dedupe_key(connections[alias], own, key)
    try:
        return int(getattr(message, "id", message))
    except (TypeError, ValueError) as error:
        raise InvalidStep(f"{message!r:.99} is no message: give a result, or its id.") from error


def check_name(name: str, what: str = "name") -> None:
    """Check the name of a signal.

    Raises:
        InvalidStep: it is no text of 1 to 180 bytes, or begins with "@", as events do.
    """
    try:
        if not as_text(name, NAME_BYTES):
            raise ValueError("it must not be empty.")
        if what == "name" and name.startswith("@"):
            raise ValueError("it must not begin with @.")
    except (TypeError, ValueError) as error:
        raise InvalidStep(f"{what}={name!r:.99} of a signal: {error}") from error


def _check(name: str, dedupe_id: str | None, if_ended: str) -> None:
    check_name(name)
    if dedupe_id is not None:
        check_name(dedupe_id, "dedupe_id")
    if if_ended not in ("raise", "ignore"):
        raise InvalidStep(f"if_ended={if_ended!r:.99}: it must be 'raise' or 'ignore'.")


def check_fits(name: str, payload: Any, type: Any) -> None:
    """Check that a wait for a signal can read this payload by its type.

    Raises:
        InvalidArgument: it is not storable.
        UnreadablePayload: it is not of this type.
    """
    what = f"the payload of the signal {name!r}"
    read(what, PayloadHint(type), parse(what, encoded(name, payload)))


def encoded(name: str, payload: Any) -> str:
    """Return the payload of a signal as JSON.

    Raises:
        InvalidArgument: it is not storable.
    """
    # The wait has its class as the hint.
    hint = Hint(type(payload)) if needs_hint(type(payload)) else ANYTHING
    return dump_small(f"the payload of the signal {name!r}", hint, payload, InvalidArgument)
