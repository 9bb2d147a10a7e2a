"""Streams over real sockets, and each test begins with an empty log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pgqueue.streams import source
from tests.browsing import browser, page  # noqa: F401
from tests.events.conftest import (  # noqa: F401
    _every_test_commits,
    _nobody_waits,
    broom,
    connect,
    connection,
    transactional_db,
)
from tests.eventually import eventually
from tests.sse.serving import Server, Stream, clients, serving


@pytest.fixture(autouse=True)
def _nobody_streams(_nobody_waits: None) -> Iterator[None]:  # noqa: F811
    yield
    source.end_all()


@pytest.fixture
def server(settings: Any) -> Iterator[Server]:
    """A server that has the streams of `urls`."""
    settings.ROOT_URLCONF = "tests.sse.urls"
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    with serving() as server:
        yield server


@pytest.fixture
def open_stream(server: Server) -> Iterator[Callable[..., Stream]]:
    """A function that opens a stream, as `EventSource` does."""
    opened: list[Stream] = []

    def open_stream(path: str = "/events/", query: Any = (), **headers: str) -> Stream:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        opened.append(Stream(server.port, path, query, **named))
        return opened[-1]

    yield open_stream
    for each in opened:
        each.leave()
    # Or the server cancels what is about to end, and Django leaves a file open.
    eventually(lambda: clients() == 0)
