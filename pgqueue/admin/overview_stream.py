"""Keep the overviews that are open up to date: one look for all pages of a process."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from datetime import timedelta
from functools import partial

from django.db import close_old_connections, connections
from django.utils import translation

from pgqueue.admin.overview_data import look
from pgqueue.admin.overview_sections import payload
from pgqueue.engine.statistics import WINDOWS
from pgqueue.service import NO_NAP
from pgqueue.sse import wire
from pgqueue.sse.client import Client
from pgqueue.sse.source import LINGER, Source

EVERY = timedelta(seconds=2)


class OverviewClient(Client):
    """An overview that is open.

    Attributes:
        window: the name of what it shows.
        language: its language.
    """

    __slots__ = ("_overviews", "language", "window")

    def __init__(self, window: str, language: str) -> None:
        super().__init__()
        self.window = window
        self.language = language
        self._overviews: Overviews | None = None

    def join(self, alias: str) -> None:
        """Be served, until `leave()`."""
        self._overviews = Overviews.serve(alias, self)

    def leave(self) -> None:
        """Be served no more."""
        if self._overviews:
            self._overviews.leave(self)

    def beat(self) -> bytes:
        """Return what is sent while there is nothing."""
        return wire.comment("")

    def tell(self, block: bytes) -> None:
        """Send what has changed."""
        if self.has_begun:
            self.push(block)
        else:
            self.begin(block)


class Overviews(Source[OverviewClient]):
    """Looks every two seconds, once for all that show the same."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._clients: set[OverviewClient] = set()

    def tick(self) -> timedelta:
        """Tell pages how it is; return how long to nap."""
        if self.has_ended():
            return NO_NAP
        with self._lock:
            self._clients.update(self._coming)
            self._coming.clear()
            alike: defaultdict[tuple[str, str], list[OverviewClient]] = defaultdict(list)
            for client in self._clients:
                alike[client.window, client.language].append(client)
        if not alike:
            return LINGER / 2
        close_old_connections()
        for (window, language), clients in alike.items():
            block = self._block(window, language)
            for client in clients:
                self.tell(client.loop, partial(client.tell, block))
        return EVERY

    def _block(self, window: str, language: str) -> bytes:
        with translation.override(language):
            told = payload(look(self._session.alias, WINDOWS[window]))
        return wire.block(json.dumps(told), event="overview")

    def _forget(self, client: OverviewClient) -> None:
        self._clients.discard(client)

    def _is_unused(self) -> bool:
        return not self._clients

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[OverviewClient]:
        return [client for client in self._clients if client.loop is loop]

    def finish(self) -> None:
        """Close the connections: its own, and Django's of this thread."""
        connections.close_all()
        super().finish()
