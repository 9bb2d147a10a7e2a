"""The envelope of encrypted JSON: `{"@": "encrypted", "value": token}`.

It is a tag as those of `encoding` are, and no value is written so: a dict that has the key "@" is
tagged itself. So an envelope is known wherever it is read, whatever its task is declared as now.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from pgqueue.codec.json_text import TAG

VALUE = "value"
ENCRYPTED = "encrypted"
_BEGINNING = re.compile(r'\s*\{\s*"@"\s*:\s*"encrypted"\s*,\s*"value"\s*:')


class Cipher(Protocol):
    """Encrypts what is stored of a task's messages."""

    def seal(self, task: str, what: str, text: str) -> str:
        """Return the token of a text."""

    def unseal(self, task: str, what: str, token: str) -> str:
        """Return the text of a token.

        Raises:
            DecryptionFailed: no key decrypts it, or it is of another task, or something else of it.
        """


def enclosed(token: str) -> str:
    """Return a token as the JSON that is stored; it needs no escapes."""
    return f'{{"{TAG}":"{ENCRYPTED}","{VALUE}":"{token}"}}'


def token_in(plain: Any) -> str | None:
    """Return the token that parsed JSON is the envelope of; None: it is something else."""
    if type(plain) is not dict or plain.get(TAG) != ENCRYPTED or len(plain) != 2:
        return None
    token = plain.get(VALUE)
    return token if isinstance(token, str) else None


def is_envelope(text: str | bytes | memoryview) -> bool:
    """Return whether a text of JSON, even without its end, is an envelope."""
    return (
        _BEGINNING.match(text if isinstance(text, str) else str(text, "utf-8", "replace"))
        is not None
    )
