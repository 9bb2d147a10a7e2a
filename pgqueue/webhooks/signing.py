"""Signatures by the rules of Standard Webhooks, version 1: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Iterable, Sequence
from hashlib import sha256
from uuid import UUID


def id_of(salt: UUID, parts: Iterable[object]) -> str:
    """Return a webhook-id: the same for the same events, in each attempt and replay.

    Args:
        salt: of the webhook: other webhooks, and those of other projects, have other ids.
        parts: what tells the delivery from others of the webhook, such as positions.
    """
    text = f"{salt}:{','.join(map(str, parts))}"
    return f"msg_{sha256(text.encode()).hexdigest()[:32]}"


def headers(id: str, at: float, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return what signs a post.

    Args:
        at: seconds since 1970.
        body: as it is before it is compressed.
        keys: each signs; the receiver knows one of them.
    """
    timestamp = str(int(at))
    signed = b".".join((id.encode(), timestamp.encode(), body))
    signatures = (b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys)
    return {
        "webhook-id": id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
