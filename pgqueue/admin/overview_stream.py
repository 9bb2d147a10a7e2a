"""Update the open overviews: one read of the database for all pages of a process."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta, tzinfo
from functools import partial
from time import monotonic

from django.db import close_old_connections, connections
from django.utils import timezone, translation

from pgqueue.admin.overview_data import look
from pgqueue.admin.overview_sections import payload
from pgqueue.admin.visitors import Visitor
from pgqueue.engine.run_statistics import WINDOWS
from pgqueue.streams import wire
from pgqueue.streams.client import Client
from pgqueue.streams.source import LINGER, StreamSource
from pgqueue.threads.service import NO_NAP

EVERY = timedelta(seconds=2)
ASKED_EVERY = timedelta(seconds=10)
"""The interval between checks of the visitors' permissions."""
DENIED = wire.block("", event="denied")


class OverviewClient(Client):
    """An open overview.

    Attributes:
        window: the name of its period.
        language: its language.
        zone: its time zone.
        asked_at: the time of the last check of its visitor's permission, by the monotonic clock.
    """

    __slots__ = ("_overviews", "asked_at", "language", "visitor", "window", "zone")

    def __init__(self, window: str, language: str, zone: tzinfo, visitor: Visitor) -> None:
        super().__init__()
        self.window = window
        self.language = language
        self.zone = zone
        self.visitor = visitor
        self.asked_at = monotonic()
        self._overviews: Overviews | None = None

    def join(self, alias: str) -> None:
        """Register the client for updates, until `leave()`."""
        self._overviews = Overviews.serve(alias, self)

    def leave(self) -> None:
        """Unregister the client."""
        if self._overviews:
            self._overviews.leave(self)

    def beat(self) -> bytes:
        """Return the bytes that keep the connection open between updates."""
        return wire.comment("")

    def tell(self, block: bytes) -> None:
        """Send the changed sections."""
        if self.has_begun:
            self.push(block)
        else:
            self.begin(block)


class Overviews(StreamSource[OverviewClient]):
    """Reads the database every two seconds, once for all equal overviews."""

    def __init__(self, alias: str) -> None:
        super().__init__(alias)
        self._clients: set[OverviewClient] = set()

    def tick(self) -> timedelta:
        """Send updates to the pages; return the nap."""
        if self.has_ended():
            return NO_NAP
        with self._lock:
            self._clients.update(self._coming)
            self._coming.clear()
            clients = list(self._clients)
        if not clients:
            return LINGER / 2
        close_old_connections()
        self._look([client for client in clients if self._may_see(client)])
        return EVERY

    def _may_see(self, client: OverviewClient) -> bool:
        """Check now and then whether a client's visitor still may see the page; end it if not."""
        if monotonic() < client.asked_at + ASKED_EVERY.total_seconds():
            return True
        may = client.visitor.still_may_see()
        client.asked_at = monotonic()
        if not may:
            self.leave(client)
            self.tell(client.loop, partial(client.end, DENIED))
        return may

    def _look(self, clients: Iterable[OverviewClient]) -> None:
        alike: defaultdict[tuple[str, str, tzinfo], list[OverviewClient]] = defaultdict(list)
        for client in clients:
            alike[client.window, client.language, client.zone].append(client)
        for (window, language, zone), same in alike.items():
            block = self._block(window, language, zone)
            for client in same:
                self.tell(client.loop, partial(client.tell, block))

    def _block(self, window: str, language: str, zone: tzinfo) -> bytes:
        with translation.override(language), timezone.override(zone):
            told = payload(look(self._session.alias, WINDOWS[window]))
        return wire.block(json.dumps(told), event="overview")

    def _forget(self, client: OverviewClient) -> None:
        self._clients.discard(client)

    def _is_unused(self) -> bool:
        return not self._clients

    def _each_of(self, loop: asyncio.AbstractEventLoop) -> list[OverviewClient]:
        return [client for client in self._clients if client.loop is loop]

    def finish(self) -> None:
        """Close the connections of this source, and Django's connections of this thread."""
        connections.close_all()
        super().finish()
