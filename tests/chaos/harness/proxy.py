"""A TCP proxy that cuts, goes silent, delays, and meddles with single statements."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tests.chaos.harness.wire import FromClient, FromServer, Request, query
from tests.eventually import eventually
from tests.system import is_alive

LONGEST = 20
"""Statements of a transaction that are remembered."""


@dataclass(frozen=True)
class Fail:
    """Let a statement fail with this SQLSTATE, in the transaction that it is in."""

    sqlstate: str


@dataclass(frozen=True)
class Terminate:
    """Terminate the backend: before it gets the statement, as it runs it, or when it has.

    Afterwards the statement took effect, and the client is not told.
    """

    moment: str


class Meddler(Protocol):
    """Says what is to become of a statement, if anything. Called in the proxy's thread.

    Args:
        before: the statements before it in the same transaction, if it is in one.
    """

    def __call__(self, statement: str, before: Sequence[str]) -> Fail | Terminate | None: ...


@dataclass(eq=False)
class Link:
    """A client's connection, and the one to the server; data passes while it is `flowing`."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    flowing: asyncio.Event
    requests: FromClient = field(default_factory=FromClient)
    answers: FromServer = field(default_factory=FromServer)
    said: list[str] = field(default_factory=list)
    withholds: bool = False

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()


class Proxy:
    """Listens on loopback, in a thread of its own; several at once are fine.

    Args:
        target: the port that it leads to, on this machine.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.delay = 0.0
        self.meddler: Meddler | None = None
        self.port = 0
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
        """Pass on nothing more, and tell neither side: as a cable pulled out far away."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def strand(self) -> None:
        """Pass on nothing more on any connection there is, ever; new ones are served."""
        self._loop.call_soon_threadsafe(self._strand)

    def _strand(self) -> None:
        for link in self._links:
            link.flowing = asyncio.Event()

    def restore(self) -> None:
        """Work again. What was frozen goes on where neither side has given it up."""
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
        for link in self._links:
            link.flowing.set()
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
        link = Link(writer, server, self._flowing)
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
            await link.flowing.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            for request in link.requests.feed(data):
                await self._send(request, link)
            await link.server.drain()

    async def _send(self, request: Request, link: Link) -> None:
        what = self._fate_of(request.statement, link) if request.statement else None
        link.answers.is_ready = False
        match what:
            case Fail(sqlstate) if request.statement == "COMMIT":
                link.server.write(query(f"SELECT chaos_fail_late('{sqlstate}'); COMMIT"))
            case Fail(sqlstate):
                link.server.write(query(f"SELECT chaos_fail('{sqlstate}')"))
            case Terminate("before"):
                terminate(link.answers.pid)
                await asyncio.to_thread(wait_for_its_end, link.answers.pid)
                link.server.write(request.data)
            case Terminate("within"):
                # It may have been done by then: the client is not to hear of that.
                link.withholds = True
                link.server.write(request.data)
                terminate(link.answers.pid)
                await asyncio.to_thread(wait_for_its_end, link.answers.pid)
            case Terminate("after"):
                link.withholds = True
                link.server.write(request.data)
            case _:
                link.server.write(request.data)

    def _fate_of(self, statement: str, link: Link) -> Fail | Terminate | None:
        if statement.startswith("BEGIN"):
            link.said.clear()
        before = link.said[-LONGEST:]
        link.said[:] = [*before, statement]
        return self.meddler(statement, before) if self.meddler else None

    async def _pump_answers(self, reader: asyncio.StreamReader, link: Link) -> None:
        while data := await reader.read(1 << 16):
            await link.flowing.wait()
            link.answers.feed(data)
            if not link.withholds:
                link.client.write(data)
                await link.client.drain()
            elif link.answers.is_ready:
                link.abort()
                return


def terminate(pid: int) -> None:
    """Tell a backend to end, by a signal: a statement that asks for it would come too late."""
    with suppress(OSError):
        assert Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"postgres:")
        os.kill(pid, signal.SIGTERM)


def wait_for_its_end(pid: int) -> None:
    """Return when a process is gone."""
    eventually(lambda: not is_alive(pid), within=5)
