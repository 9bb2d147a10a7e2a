"""A real ASGI server, in a thread of the test's process, and clients that read streams."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlencode

import uvicorn
from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application

from pgqueue.sse.feed import EventFeed
from pgqueue.streams import source
from tests.eventually import eventually
from tests.processes import database_url
from tests.starting import Popen


class Server(threading.Thread):
    """uvicorn, with Django as its tests have set it up."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        config = uvicorn.Config(
            ASGIStaticFilesHandler(get_asgi_application()),
            port=0,
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=1,
        )
        self.uvicorn = uvicorn.Server(config)

    def run(self) -> None:
        self.uvicorn.run()

    @property
    def port(self) -> int:
        return int(self.uvicorn.servers[0].sockets[0].getsockname()[1])

    def stop(self) -> None:
        self.uvicorn.should_exit = True
        self.join(20)
        assert not self.is_alive()


@contextmanager
def serving() -> Iterator[Server]:
    """A server for as long as the block lasts."""
    server = Server()
    server.start()
    try:
        eventually(lambda: server.uvicorn.started)
        yield server
    finally:
        server.stop()


@dataclass
class Block:
    """What stands between two empty lines of a stream."""

    fields: dict[str, str] = field(default_factory=dict)

    @property
    def event(self) -> str:
        return self.fields.get("event", "")

    @property
    def id(self) -> str | None:
        """The position of its id, without the mark behind that."""
        return None if "id" not in self.fields else self.fields["id"].partition("-")[0]

    @property
    def data(self) -> Any:
        return json.loads(self.fields["data"]) if "data" in self.fields else None


class Stream(threading.Thread):
    """A client that reads all it is sent, as a browser would, and remembers it."""

    def __init__(self, port: int, path: str, query: Any = (), **headers: str) -> None:
        super().__init__(daemon=True)
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)
        address = f"{path}?{urlencode(query, doseq=True)}"
        self._connection.request("GET", address, headers=headers)
        self.response: HTTPResponse = self._connection.getresponse()
        self.blocks: list[Block] = []
        self.error: Exception | None = None
        if self.response.status == 200:
            self.start()

    def run(self) -> None:
        block = Block()
        try:
            while line := self.response.readline().decode():
                name, colon, value = line.rstrip("\n").partition(":")
                if not colon:
                    self.blocks.append(block)
                    block = Block()
                else:
                    text = value.removeprefix(" ")
                    before = block.fields.get(name)
                    block.fields[name] = text if before is None else f"{before}\n{text}"
        except Exception as error:
            self.error = error

    @property
    def events(self) -> list[Block]:
        """All but the one that says that it is ready."""
        return [
            each for each in self.blocks if "data" in each.fields and each.event != "pgqueue.ready"
        ]

    @property
    def comments(self) -> list[str]:
        return [each.fields[""] for each in self.blocks if "" in each.fields]

    @property
    def last_id(self) -> str | None:
        """The position with which a browser would come back."""
        return next((each.id for each in reversed(self.blocks) if each.id is not None), None)

    @property
    def whole_id(self) -> str:
        """The id with which a browser would come back, mark included."""
        return next(each.fields["id"] for each in reversed(self.blocks) if "id" in each.fields)

    def payloads(self) -> list[Any]:
        return [each.data["payload"] for each in self.events]

    def begins(self) -> Stream:
        """Wait until it has its place in the log, so that it is sent what comes."""
        eventually(
            lambda: "pgqueue.ready" in [each.event for each in self.blocks], what="it has begun"
        )
        return self

    def sees(self, *payloads: Any) -> None:
        """Wait until just these have come."""
        eventually(lambda: len(self.events) >= len(payloads), what=f"came: {self.blocks}")
        assert self.payloads() == list(payloads)

    def ends(self) -> None:
        """Wait until the server has ended it."""
        self.join(20)
        assert not self.is_alive()

    def leave(self) -> None:
        """Go away, as a closed page does."""
        if sock := getattr(self._connection, "sock", None):
            sock.shutdown(2)
        self._connection.close()
        if self.ident:
            self.join(10)


def feeds() -> list[EventFeed]:
    """Return what reads the log for streams in this process."""
    return [each for each in source._open.values() if isinstance(each, EventFeed)]


def clients() -> int:
    """Return how many streams this process feeds."""
    return sum(len(each) for feed in feeds() for each in feed._clients.values())


class Process:
    """A server that is a process of its own, as `python -m uvicorn` starts it."""

    def __init__(self, *, port: int = 0, settings: str = "tests.sse.settings") -> None:
        self.port = port or free_port()
        self._log = NamedTemporaryFile("r+")  # noqa: SIM115
        self.popen = Popen(
            [
                *("-m", "uvicorn", "testproject.asgi:application", "--lifespan", "off"),
                *("--port", str(self.port), "--timeout-graceful-shutdown", "1"),
            ],
            bound=True,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": settings,
                "DATABASE_URL": database_url(),
            },
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()

    def wait_until_it_serves(self) -> None:
        def accepts() -> bool:
            assert self.popen.poll() is None, self.log
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return True
            return False

        eventually(accepts, within=30)

    def stop(self) -> None:
        """Stop it as systemd does."""
        self.popen.terminate()
        self.popen.wait(20)

    def close(self) -> None:
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait(20)
        self._log.close()


@contextmanager
def process(**options: Any) -> Iterator[Process]:
    """A server in a process of its own, for as long as the block lasts."""
    server = Process(**options)
    try:
        server.wait_until_it_serves()
        yield server
    finally:
        server.close()


def free_port() -> int:
    """Return a port that nobody uses now, for a server that is stopped and started again."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])
