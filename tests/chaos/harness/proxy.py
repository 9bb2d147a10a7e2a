"""A TCP proxy that cuts, goes silent, delays, and meddles with single statements."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from tests.chaos.harness.wire import FromClient, FromServer, Request, query


@dataclass(frozen=True)
class Fail:
    """Let a statement fail with this SQLSTATE, in the transaction that it is in."""

    sqlstate: str


@dataclass(frozen=True)
class Terminate:
    """Terminate the backend: before it gets the statement, as it runs it, or when it has.

    Afterwards the statement took effect, and nobody is told.
    """

    moment: str


class Meddler(Protocol):
    """Says what is to become of a statement, if anything. Called in the proxy's thread."""

    def __call__(self, statement: str) -> Fail | Terminate | None: ...


@dataclass(eq=False)
class Link:
    """A client's connection, and the one to the server."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    requests: FromClient = field(default_factory=FromClient)
    answers: FromServer = field(default_factory=FromServer)
    withholds: bool = False

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    """Listens on loopback, in a thread of its own; several at once are fine.

    Args:
        target: the port that it leads to.
        terminate: ends a backend of the server's by its pid, and waits until it is gone.
    """

    def __init__(self, target: int, *, terminate: Callable[[int], None]) -> None:
        self.target = target
        self.delay = 0.0
        self.meddler: Meddler | None = None
        self.port = 0
        self._terminate = terminate
        self._links: set[Link] = set()
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        self._do(self._listen())

    async def _listen(self) -> None:
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Reset all connections, and every new one, until restored."""
        self._do(self._cut(True))

    def snap(self) -> None:
        """Reset all connections; new ones are served."""
        self._do(self._cut(False))

    async def _cut(self, for_long: bool) -> None:
        self._is_cut = for_long
        for link in list(self._links):
            link.abort()

    def freeze(self) -> None:
        """Pass on nothing more, and say so to nobody: as a cable pulled out far away."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def restore(self) -> None:
        """Work again. What was frozen goes on where nobody has given it up."""
        self._is_cut = False
        self._loop.call_soon_threadsafe(self._flowing.set)

    def close(self) -> None:
        """End it."""
        if self._thread.is_alive():
            self._do(self._close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        self._flowing.set()
        await self._cut(True)
        # Not cancelled: the streams of Python 3.11 complain of that.
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others, timeout=5)

    def _do(self, what: Any) -> None:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(what, self._loop)
        future.result(10)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flowing.wait()
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            answers, server = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, server)
        self._links.add(link)
        pumps = [self._pump_requests(reader, link), self._pump_answers(answers, link)]
        tasks = [asyncio.create_task(pump) for pump in pumps]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._links.discard(link)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._part(link)

    async def _part(self, link: Link) -> None:
        """Close both sides, once they have what was written to them."""
        for side in (link.client, link.server):
            with suppress(OSError):
                side.close()

    async def _pump_requests(self, reader: asyncio.StreamReader, link: Link) -> None:
        while data := await reader.read(1 << 16):
            await self._flowing.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            for request in link.requests.feed(data):
                await self._send(request, link)
            await link.server.drain()

    async def _send(self, request: Request, link: Link) -> None:
        meddler = self.meddler
        what = meddler(request.statement) if meddler and request.statement else None
        link.answers.is_ready = False
        match what:
            case Fail(sqlstate):
                link.server.write(query(f"SELECT chaos_fail('{sqlstate}')"))
            case Terminate("before"):
                await asyncio.to_thread(self._terminate, link.answers.pid)
                link.server.write(request.data)
            case Terminate("within"):
                # It may have been done by then: nobody is to hear of that.
                link.withholds = True
                link.server.write(request.data)
                await link.server.drain()
                await asyncio.to_thread(self._terminate, link.answers.pid)
            case Terminate("after"):
                link.withholds = True
                link.server.write(request.data)
            case _:
                link.server.write(request.data)

    async def _pump_answers(self, reader: asyncio.StreamReader, link: Link) -> None:
        while data := await reader.read(1 << 16):
            await self._flowing.wait()
            link.answers.feed(data)
            if not link.withholds:
                link.client.write(data)
                await link.client.drain()
            elif link.answers.is_ready:
                link.abort()
                return
