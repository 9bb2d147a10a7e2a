"""Signatures by the rules of Standard Webhooks, version 1: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from uuid import UUID

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def id_of(salt: UUID, parts: Iterable[object]) -> str:
    """Return a webhook-id: the same for the same events, in each attempt and replay.

    Args:
        salt: the salt of the webhook, so that its ids differ from the ids of all other webhooks.
        parts: values that identify the delivery within the webhook, for example positions.
    """
    text = f"{salt}:{','.join(map(str, parts))}"
    return f"msg_{sha256(text.encode()).hexdigest()[:32]}"


def headers(id: str, at: float, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return the headers that sign a post.

    Args:
        at: the time in seconds since 1970.
        body: the body before compression.
        keys: the keys, each of which signs; the receiver knows one of them.
    """
    timestamp = str(int(at))
    signatures = (signature(id, timestamp, body, key) for key in keys)
    return {ID: id, TIMESTAMP: timestamp, SIGNATURE: " ".join(signatures)}


def signature(id: str, timestamp: str, body: bytes, key: bytes) -> str:
    """Return the signature of a post by a key."""
    signed = b".".join((id.encode(), timestamp.encode(), body))
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
