"""What a stream answers to the server, which ends a connection that it hears nothing of."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from pgqueue.database.connections import Session
from pgqueue.replication import stream as module
from pgqueue.replication.stream import Stream
from pgqueue.threads.wakeup import Wakeup
from tests.replication.test_protocol import BEGIN, COMMIT, INSERT, KEEPALIVE


class Server:
    """One that has sent these messages, and keeps what it is told."""

    def __init__(self, sent: Sequence[bytes]) -> None:
        self._sent = list(sent)
        self.told: list[bytes] = []

    def get_copy_data(self, is_async: int) -> tuple[int, bytes]:
        return (len(self._sent[0]), self._sent.pop(0)) if self._sent else (0, b"")

    def put_copy_data(self, message: bytes) -> None:
        self.told.append(message)

    def flush(self) -> None:
        pass


class NoWait:
    def wait(self, timeout: float, connection: object) -> list[object]:
        return []


def read(*sent: bytes, reply_at: float = float("inf")) -> list[tuple[int, int]]:
    """Return the positions that a server is told which sends this: received, confirmed."""
    server = Server(sent)
    stream = Stream(Session("default", name="tests"), slot="s", publication="p")
    opened: Any = SimpleNamespace(pgconn=server)
    stream._connection = opened
    stream._reply_at = reply_at
    nobody: Any = NoWait()
    waiting: Wakeup = nobody
    stream.read(0, waiting)
    return [(_number(each[1:9]), _number(each[9:17])) for each in server.told]


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def test_a_keepalive_that_wants_a_reply_has_one_at_once() -> None:
    assert read(KEEPALIVE + b"\1") == [(0xFFFFFFF0, 0)]


def test_one_amid_a_transaction_has_one_too_and_confirms_nothing_of_it() -> None:
    assert read(BEGIN, INSERT, KEEPALIVE + b"\1", INSERT, COMMIT) == [(0xFFFFFFF0, 0)]


def test_one_that_wants_none_has_none() -> None:
    assert read(KEEPALIVE + b"\0") == []


def test_a_server_that_asks_for_nothing_hears_of_us_now_and_then() -> None:
    assert read(reply_at=0) == [(0, 0)]
    assert module.REPLY_EVERY <= 30, "half of wal_sender_timeout as it is by default"
