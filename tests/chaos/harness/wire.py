"""As much of PostgreSQL's protocol as is needed to know which statement a client sends.

https://www.postgresql.org/docs/current/protocol-message-formats.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

# What comes in place of a start-up, and is answered by one byte.
NEGOTIATIONS = (80877103, 80877104)
LENGTH = struct.Struct("!I")


@dataclass
class Request:
    """What a client sends until it waits for an answer, and the statement in it, if one runs."""

    data: bytes
    statement: str | None = None


@dataclass
class FromClient:
    """Divides what a client sends into requests."""

    _left: bytes = b""
    _has_started: bool = False
    _prepared: dict[bytes, str] = field(default_factory=dict)

    def feed(self, data: bytes) -> Iterator[Request]:
        """Yield the requests that are complete."""
        self._left += data
        request = Request(b"")
        taken = 0
        for kind, body, end in self._messages():
            request.data = self._left[taken:end]
            if kind == b"P":
                name, _, rest = body.partition(b"\0")
                self._prepared[name] = rest.partition(b"\0")[0].decode()
            elif kind == b"B":
                _, _, rest = body.partition(b"\0")
                request.statement = self._prepared.get(rest.partition(b"\0")[0])
            elif kind == b"Q":
                request.statement = body[:-1].decode()
            if kind not in b"PBDECH":
                yield request
                request = Request(b"")
                taken = end
        self._left = self._left[taken:]

    def _messages(self) -> Iterator[tuple[bytes, bytes, int]]:
        at = 0
        while True:
            start = at + self._has_started
            if len(self._left) < start + 4:
                return
            end = start + LENGTH.unpack_from(self._left, start)[0]
            if len(self._left) < end:
                return
            kind = self._left[at:start]
            if not kind:
                (code,) = LENGTH.unpack_from(self._left, start + 4)
                self._has_started = code not in NEGOTIATIONS
            yield kind or b"?", self._left[start + 4 : end], end
            at = end


@dataclass
class FromServer:
    """Finds in what a server answers whom it is from, and when it waits for what comes next.

    That is a request, or the rows of a COPY.
    """

    pid: int = 0
    is_ready: bool = False
    _left: bytes = b""

    def feed(self, data: bytes) -> None:
        """Look at what came."""
        if not self.pid and data in (b"N", b"S"):
            return
        self._left += data
        at = 0
        while len(self._left) >= at + 5:
            end = at + 1 + LENGTH.unpack_from(self._left, at + 1)[0]
            if len(self._left) < end:
                break
            kind = self._left[at : at + 1]
            if kind == b"K":
                (self.pid,) = LENGTH.unpack_from(self._left, at + 5)
            self.is_ready = kind in b"ZG"
            at = end
        self._left = self._left[at:]


def query(text: str) -> bytes:
    """Return a simple query."""
    body = text.encode() + b"\0"
    return b"Q" + LENGTH.pack(len(body) + 4) + body
