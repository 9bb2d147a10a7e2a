"""A scenario of the event log: publishers, readers of groups, and the books of both."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from pgqueue.replication import slots
from tests.chaos.harness.processes import Process
from tests.chaos.harness.stage import SEED, Stage, stop
from tests.chaos.producer import NUMBERS_EACH
from tests.eventually import eventually

EXACTLY_ONCE = ("atomic", "batches")
LEASE = 2.0
SLOT = "pgqueue"

Connection = psycopg.Connection[Any]


class LogStage(Stage):
    """Everybody who takes part in a scenario of the log. `end()` closes the books."""

    _web_servers = 0

    # Who takes part.

    def publisher(self, *, rate: float = 300, port: int | None = None) -> Process:
        """Start a publisher of about so many events a second."""
        number = len(self._producers) + 1
        arguments = ["-m", "tests.chaos.publisher", str(number), str(rate), SEED]
        publisher = self._process(f"publisher-{number}", arguments, port, {}, None)
        self._producers.append(publisher)
        eventually(lambda: "came" in "".join(publisher.output), within=30, what="it publishes")
        return publisher

    def reader(
        self, group: str, *, partitions: int = 1, port: int | None = None, lease: float = LEASE
    ) -> Process:
        """Start a reader, and return when it is known."""
        name = f"reader-{len(self.others)}-{group}"
        arguments = [group, str(partitions), str(lease)]
        reader = self._other(name, "reader", *arguments, port=port)
        eventually(
            lambda: not reader.is_alive or self.ask(READER, reader.pid),
            within=40,
            what="the reader is known",
        )
        assert reader.is_alive, reader.log
        return reader

    def feed(self, *, port: int | None = None, is_first: bool = True) -> Process:
        """Start a process that follows the WAL, or the first of them stands by."""
        self.environment["PGQUEUE_FEED"] = "wal"
        with closing(self.server.connect()) as connection:
            slots.make_feed(connection, SLOT, SLOT)
        name = f"feed-{len(self.others)}"
        feed = self._process(name, ["-m", "manage", "pgqueue_replication"], port, {}, None)
        self.others.append(feed)
        if is_first:
            eventually(lambda: self.is_followed or not feed.is_alive, within=40, what="it follows")
        assert feed.is_alive, feed.log
        return feed

    def web_server(self, port: int) -> Process:
        """Start a web server that streams the log, and return when it accepts connections."""
        self._web_servers += 1
        arguments = [
            *("-m", "uvicorn", "tests.chaos.web:application", "--lifespan", "off"),
            *("--port", str(port), "--timeout-graceful-shutdown", "1"),
        ]
        settings = {"DJANGO_SETTINGS_MODULE": "tests.chaos.web"}
        server = self._process(f"web-{self._web_servers}", arguments, None, settings, None)

        def accepts() -> bool:
            assert server.is_alive, server.log
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        eventually(accepts, within=40, what="it serves")
        return server

    def publish(self, *, rests: float = 0, key: str = "") -> str:
        """Publish an event whose first handler rests; return the file that it makes then."""
        [number] = self.numbers("event", 1)
        file = str(self.folder / f"event {number}")
        payload = {"number": number, **({"rests": rests, "file": file} if rests else {})}
        self.ask("SELECT pgqueue_publish('chaos.rests', %s, key => %s)", Jsonb(payload), key)
        return file

    # What happens.

    def partitions_of(self, reader: Process) -> list[int]:
        """Return which partitions a process has, by the database's word."""
        row = self.ask(PARTITIONS, reader.pid)
        return row[0] if row and row[0] else []

    @property
    def is_followed(self) -> bool:
        """Whether a process follows the WAL."""
        return bool(self.ask(FOLLOWED, SLOT) == (True,))

    def handles(self, group: str, count: int, *, within: float = 60) -> None:
        """Wait until so many more have been handled."""
        before = self.handled(group)
        eventually(
            lambda: self.handled(group) >= before + count, within=within, what=f"{group} goes on"
        )

    def handled(self, group: str) -> int:
        """Return how many rows a group's handlers have left."""
        row = self.ask('SELECT count(*) FROM chaos_handled WHERE "group" = %s', group)
        return int(row[0]) if row else 0

    @contextmanager
    def taken_over(self, group: str, reader: Process, *, within: float) -> Iterator[None]:
        """The block ends or stops a reader; wait until others have all that it had, in time."""
        eventually(lambda: self.partitions_of(reader), what="it has something to lose")
        [its_id] = self.ask(READER, reader.pid)
        lost = self.partitions_of(reader)
        yield
        began = time.monotonic()
        eventually(
            lambda: self.ask(TAKEN, group, lost, its_id) == (len(lost),),
            within=within,
            what=f"others have {lost}",
        )
        self.recovery.seconds.append(time.monotonic() - began)

    @contextmanager
    def recovers(self, *groups: str) -> Iterator[None]:
        """The block is a fault; measure how long it takes from its end until each goes on."""
        yield
        began = time.monotonic()
        before = {group: self.handled(group) for group in groups}
        for group, count in before.items():
            eventually(lambda: self.handled(group) > count, within=60, what=f"{group} goes on")  # noqa: B023
        self.recovery.seconds.append(time.monotonic() - began)

    def lose(self, reader: Process) -> None:
        """Kill a reader, for good."""
        reader.kill()
        self.others.remove(reader)

    # The end.

    def end_log(self, *, within: float = 60) -> str:
        """Let the publishers stop and the groups reach the end; stop the readers, and audit."""
        self.stop_producers()
        eventually(self._is_read, within=within, what=self.later(self._what_is_left))
        stop(self.others)
        with closing(self.server.connect()) as connection:
            came_to = self._audit(connection)
        self.recovery.came_to = came_to
        print(f"{self.recovery.scenario}: {came_to}")
        return came_to

    def _is_read(self) -> bool:
        for each in self.others:
            assert each.is_alive, f"{each.name} ended by itself: {each.log}"
        return bool(self.ask(IS_READ) == (True,))

    def _what_is_left(self) -> str:
        return f"{self.ask(LEFT)}"

    def _audit(self, connection: Connection) -> str:
        rows = connection.execute(
            "SELECT position, (payload ->> 'number')::bigint FROM pgqueue_event ORDER BY position"
        ).fetchall()
        assert [position for position, _ in rows] == list(range(1, len(rows) + 1)), "gaps"
        found = [number for _, number in rows]
        self._check_what_there_is(found)
        self._check_order(found)
        names = connection.execute("SELECT name, partitions FROM pgqueue_group").fetchall()
        again = {name: self._check_group(connection, name, count) for name, count in names}
        unclean = connection.execute(
            "SELECT count(*) FROM pgqueue_cursor WHERE reader_id IS NOT NULL "
            "AND reader_id IN (SELECT id FROM pgqueue_reader WHERE pid = ANY (%s))",
            [[each.pid for each in self.others]],
        ).fetchone()
        assert unclean == (0,), "a reader that stopped left a lease behind"
        undone, unsure = len(self.books.undone), len(self.books.unsure)
        return f"{len(rows)} events, {undone} undone, {unsure} unsure; handled again: {again}"

    def _check_what_there_is(self, found: Sequence[int]) -> None:
        doubled = [number for number, times in Counter(found).items() if times > 1]
        assert not doubled, f"there more than once: {doubled[:5]}"
        there = set(found)
        expected = set(self.books.committed)
        for each in self.books.unsure:
            assert each.keys() & there in (set(), set(each)), f"half of a transaction: {each}"
            expected |= each.keys() & there
        assert not (lost := expected - there), f"lost: {sorted(lost)[:5]}"
        assert not (strange := there - expected), f"never committed: {sorted(strange)[:5]}"

    def _check_order(self, found: Sequence[int]) -> None:
        """Each publisher counts, and waits for each commit but those it was not told of."""
        last: dict[int, int] = {}
        unsure = {number for each in self.books.unsure for number in each}
        for number in found:
            if number not in unsure:
                publisher = number // NUMBERS_EACH
                assert number > last.get(publisher, -1), f"{number} is out of order"
                last[publisher] = number
        index = {number: n for n, number in enumerate(found)}
        for each in self.books.unsure:
            places = [index[number] for number in sorted(each) if number in index]
            assert places == sorted(places), f"a transaction is out of order: {each}"

    def _check_group(self, connection: Connection, group: str, partitions: int) -> int:
        """Check what a group has handled; return how often it handled something again."""
        rows = connection.execute(HANDLED, [partitions, group]).fetchall()
        times = Counter(position for _, position in rows)
        last: dict[int, int] = {}
        for partition, position in rows:
            is_first = position > last.get(partition, 0)
            if group in EXACTLY_ONCE:
                assert is_first, f"{group} handled {position} again, or out of order"
            last[partition] = max(position, last.get(partition, 0))
        row = connection.execute("SELECT count(*) FROM pgqueue_event").fetchone()
        assert row
        missed = set(range(1, row[0] + 1)) - set(times)
        assert not missed, f"{group} never handled {sorted(missed)[:5]}"
        return times.total() - len(times)


FOLLOWED = """
SELECT active AND confirmed_flush_lsn IS NOT NULL FROM pg_replication_slots WHERE slot_name = %s
"""
# Its process has a second row, by which it is told of events.
READER = 'SELECT id FROM pgqueue_reader WHERE pid = %s AND "group" IS NOT NULL'
PARTITIONS = """
SELECT array_agg(c.partition ORDER BY c.partition)
FROM pgqueue_cursor c JOIN pgqueue_reader r ON r.id = c.reader_id WHERE r.pid = %s
"""
TAKEN = """
SELECT count(*) FROM pgqueue_cursor
WHERE "group" = %s AND partition = ANY (%s) AND reader_id <> %s
"""
IS_READ = """
SELECT NOT EXISTS (SELECT FROM pgqueue_event_inbox)
   AND NOT EXISTS (
        SELECT FROM pgqueue_cursor
        WHERE position < (SELECT coalesce(max(position), 0) FROM pgqueue_event))
"""
LEFT = """
SELECT (SELECT count(*) FROM pgqueue_event_inbox), (SELECT max(position) FROM pgqueue_event),
       (SELECT array_agg(to_jsonb(c) ORDER BY "group", partition) FROM pgqueue_cursor c)
"""
HANDLED = """
SELECT pgqueue_partition_v1(e.key, %s), h.position
FROM chaos_handled h JOIN pgqueue_event e USING (position)
WHERE h."group" = %s ORDER BY h.id
"""
