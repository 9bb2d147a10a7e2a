"""Clients that read slowly, or not at all: they cost little, and nothing is lost."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator

import pytest

from pgqueue.events.publishing import publish_many
from pgqueue.sse import missed
from pgqueue.streams import client as clients_of
from pgqueue.streams.client import Client
from tests.eventually import eventually
from tests.sse.serving import Server, Stream, clients

LARGE = "x" * 20_000


@pytest.fixture
def sleeper(server: Server) -> Iterator[socket.socket]:
    """A client that reads nothing, until the test does."""
    with socket.socket() as sleeper:
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sleeper.connect(("127.0.0.1", server.port))
        sleeper.sendall(b"GET /events/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        sleeper.settimeout(20)
        yield sleeper


def read_all(sleeper: socket.socket) -> str:
    """Read until the server ends the stream."""
    read = b""
    while not read.endswith(b"0\r\n\r\n") and (more := sleeper.recv(1 << 20)):
        read += more
    return read.decode()


def test_one_that_does_not_read_is_dropped_and_goes_on_when_it_comes_back(
    sleeper: socket.socket, open_stream: Callable[..., Stream], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What it has missed is not too much to be sent again.
    monkeypatch.setattr(missed, "MOST_BYTES", 100 * missed.MOST_BYTES)
    other = open_stream().begins()
    eventually(lambda: clients() == 2)
    for start in range(0, 400, 20):
        publish_many([("a", {"n": n, "x": LARGE}) for n in range(start, start + 20)])

    eventually(lambda: len(other.events) == 400)
    assert [each.data["payload"]["n"] for each in other.events] == list(range(400))
    assert clients() == 1

    read = read_all(sleeper)
    assert "dropped: too slow" in read
    ids = [line.removeprefix("id: ") for line in read.split("\n") if line.startswith("id: ")]
    again = open_stream(Last_Event_ID=ids[-1]).begins()
    assert [int(each.id or 0) for each in again.events] == list(
        range(int(ids[-1].partition("-")[0]) + 1, 401)
    )


def test_what_is_too_large_to_be_sent_again_is_not(open_stream: Callable[..., Stream]) -> None:
    publish_many([("a", {"n": n, "x": LARGE}) for n in range(60)])

    again = open_stream(Last_Event_ID="1").begins()

    assert [each.data["reason"] for each in again.events] == ["too_many"]


class TestAClient:
    """Without a server: what waits for one, and no more."""

    @staticmethod
    def run(tried: Callable[[Client], None]) -> list[bytes]:
        """Return what a client is sent that begins to read after all that."""

        async def run() -> list[bytes]:
            client = Client()
            client.begin(b"first")
            tried(client)
            sent = []
            while chunk := await client.next(0.01):
                sent.append(chunk)
            return sent

        return asyncio.run(run())

    def test_is_sent_all_at_once_that_waits(self) -> None:
        def tried(client: Client) -> None:
            for number in range(5):
                client.push(b"%d" % number)

        assert self.run(tried) == [b"first01234"]

    def test_is_dropped_with_too_many_events(self) -> None:
        def tried(client: Client) -> None:
            for _ in range(clients_of.MOST_EVENTS + 1):
                client.push(b".")
            assert client.is_over
            client.push(b"never")

        assert self.run(tried) == [clients_of.TOO_SLOW]

    def test_is_dropped_with_too_many_bytes(self) -> None:
        def tried(client: Client) -> None:
            client.push(b"x" * clients_of.MOST_BYTES)
            assert not client.is_over
            client.push(b"x")
            assert client.is_over

        assert self.run(tried) == [clients_of.TOO_SLOW]

    def test_is_sent_what_it_had_missed_before_what_came_meanwhile(self) -> None:
        async def run() -> list[bytes | None]:
            client = Client()
            client.push(b"live")
            sent = [await client.next(0.01)]
            client.begin(b"missed ")
            return [*sent, await client.next(0.01), await client.next(0.01)]

        assert asyncio.run(run()) == [b"", b"missed live", b""]

    def test_is_sent_what_waits_before_its_end(self) -> None:
        async def run() -> list[bytes | None]:
            client = Client()
            client.begin(b"a")
            client.end(b"z")
            client.end(b"never")
            return [await client.next(1), await client.next(1), await client.next(1)]

        assert asyncio.run(run()) == [b"az", None, None]
