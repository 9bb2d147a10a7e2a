"""The payloads of raw messages, as JSON and back: by the rules of arguments without a hint."""

from __future__ import annotations

from types import NoneType
from typing import Any

from pgqueue.codec import arguments
from pgqueue.codec.arguments import PAYLOAD_LIMIT, parse, read, short_json, size
from pgqueue.codec.encoding import Hint
from pgqueue.codec.json_text import TAG
from pgqueue.codec.scalars import Unstorable
from pgqueue.exceptions import InvalidMessage, PayloadTooLarge

HINT = Hint()
TEXTS = {str}
SCALARS = {str, int, bool, NoneType}


def encode(what: str, value: Any) -> str | None:
    """Return `value` as JSON text; None, which is no payload, as None.

    Raises:
        InvalidMessage: PostgreSQL cannot store it, or a part of it.
        PayloadTooLarge: it takes more than `PAYLOAD_LIMIT`.
    """
    if value is None:
        return None
    if _is_plain(value) and (short := short_json(value)):
        return short
    try:
        text = HINT.dump(value)
    except Unstorable as error:
        raise InvalidMessage(error.about(what)) from error
    check_size(what, size(text))
    return text


def _is_plain(value: Any) -> bool:
    """Return whether it is a dict of texts, whole numbers and their like: its own JSON.

    Most payloads are, and to look into each of their values takes twice as long.
    """
    return (
        type(value) is dict
        and TAG not in value
        and set(map(type, value)) <= TEXTS
        and set(map(type, value.values())) <= SCALARS
    )


def check_size(what: str, bytes_taken: int) -> None:
    """Refuse a value that is too large to be kept with a message.

    Raises:
        PayloadTooLarge: it takes more than `PAYLOAD_LIMIT`.
    """
    arguments.check_size(what, bytes_taken, PAYLOAD_LIMIT, PayloadTooLarge)


def decode(what: str, text: bytes | None) -> Any:
    """Return the value that was encoded.

    Raises:
        UnreadablePayload: this JSON was not written by these rules.
    """
    return None if text is None else read(what, HINT, parse(what, text))


def as_call(payload: bytes | None) -> bytes:
    """Return the payload of a task that is called with a raw one."""
    return b'{"args": [%s]}' % (payload or b"null")
