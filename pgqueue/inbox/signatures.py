"""Signatures of Standard Webhooks: an HMAC of a message's id, its time of sending and its body.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from pgqueue.exceptions import InvalidSecret, PGQueueError
from pgqueue.options.webhook_options import SECRET, SECRET_BYTES, key_of
from pgqueue.options.webhook_signing import (
    ID,
    SIGNATURE,
    TIMESTAMP,
    signature,
)


class Unverified(PGQueueError):
    """A message has no valid signature."""


def as_secrets(values: Any) -> list[bytes]:
    """Return the keys of one secret, or of several secrets during a rotation.

    Raises:
        InvalidSecret: a secret is invalid, or there is none.
    """
    given = [values] if isinstance(values, str | bytes) else values
    if not isinstance(given, Iterable) or not (secrets := list(given)):
        raise InvalidSecret("There is no secret: give one, or a list of them.")
    return [_as_secret(number, each) for number, each in enumerate(secrets, 1)]


def _as_secret(number: int, value: Any) -> bytes:
    # Errors do not contain the value, since they are logged.
    try:
        text = value.decode() if isinstance(value, bytes) else value
        coded = text.removeprefix(SECRET)
        key = key_of(coded + "=" * (-len(coded) % 4))  # many senders omit the "="
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidSecret(
            f"Secret {number} must be text in base64, which may begin with {SECRET!r}."
        ) from error
    if len(key) not in SECRET_BYTES:
        raise InvalidSecret(
            f"Secret {number} has {len(key)} bytes: "
            f"it must have {SECRET_BYTES[0]} to {SECRET_BYTES[-1]}."
        )
    return key


def verify(
    secrets: Iterable[bytes],
    headers: Mapping[str, str],
    bodies: Iterable[bytes],
    *,
    tolerance: timedelta,
    now: float,
) -> str:
    """Return the id of a message that was signed with one of the secrets.

    Args:
        headers: the headers by name, in upper or lower case.
        bodies: the forms of its body (compressed and not); one of them was signed.
        tolerance: the maximum age of the message, and the maximum lead of its sender's clock.
        now: the time in seconds since 1970.

    Raises:
        Unverified: a header is missing or invalid, the message is too old, or the signature is
            wrong.
    """
    given = {name.lower(): value for name, value in headers.items()}
    if missing := [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]:
        raise Unverified(f"The header {missing[0]} is missing.")
    for name in (ID, SIGNATURE):
        if not _is_text(given[name]):
            raise Unverified(f"The header {name} is no text.")
    id, sent_at = given[ID], given[TIMESTAMP]
    if not (sent_at.isascii() and sent_at.isdigit()):
        raise Unverified(f"The header {TIMESTAMP} must be seconds since 1970.")
    if abs(now - int(sent_at[:20])) > tolerance.total_seconds():
        raise Unverified("The message is too old, or the clocks of the two ends differ.")
    signatures = [each.encode() for each in given[SIGNATURE].split()]
    secrets = list(secrets)
    for body in bodies:
        for secret in secrets:
            expected = signature(id, sent_at, body, secret).encode()
            if any(hmac.compare_digest(expected, each) for each in signatures):
                return id
    raise Unverified("It was signed with another secret, or changed on its way.")


def _is_text(value: str) -> bool:
    """Return whether a text can be encoded as UTF-8; a lone surrogate cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
