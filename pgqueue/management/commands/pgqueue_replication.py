"""Follow the WAL; make, drop or show its publication and slot."""

from __future__ import annotations

import json
import logging
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.conf import settings
from pgqueue.database.connections import connect
from pgqueue.engine import replication as engine
from pgqueue.engine.replication import FeedState
from pgqueue.engine.values import Connection
from pgqueue.exceptions import FeedUnavailable
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.replication import slots
from pgqueue.replication.feed import WalFeed
from pgqueue.values.names import AT_START
from pgqueue.worker.process import configure_logging
from pgqueue.worker.stopping import SIGNALS, StopRequests

LOOK = timedelta(seconds=1)
GRACE = timedelta(seconds=5)
LEVELS = {0: logging.ERROR, 1: logging.INFO, 2: logging.DEBUG, 3: logging.DEBUG}
POLLED = "PGQUEUE['FEED'] is 'poll': producers also notify readers themselves, beside this process."


class Command(QueueCommand):
    help = (
        "Follow PostgreSQL's write-ahead log until SIGTERM, SIGINT or SIGHUP: give committed "
        "events their positions, and wake idle readers. Stand by if another process does so."
    )
    requires_system_checks = [AT_START]

    def add_arguments(self, parser: ArgumentParser) -> None:
        others = parser.add_mutually_exclusive_group()
        for name, about in (
            ("make", "make the publication and the slot, if they are missing, and end."),
            (
                "drop",
                "drop both, and end: the server keeps no more WAL for the slot.",
            ),
            ("status", "show the publication and the slot, and end."),
            ("takeover", "end the connection that streams from the slot, and follow in its place."),
        ):
            others.add_argument(f"--{name}", action="store_true", help=about)
        arguments.add_format(parser, "of the output.")
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        configure_logging(LEVELS[options["verbosity"]])
        alias = database_of(options["database"])
        try:
            with closing(connect(alias, name="replication")) as connection:
                verb = next((verb for name, verb in VERBS.items() if options[name]), _ready)
                if said := verb(connection, options):
                    self.stdout.write(said)
        except FeedUnavailable as error:
            raise CommandError(str(error)) from error
        except psycopg.errors.InsufficientPrivilege as error:
            raise CommandError(
                f"{error.diag.message_primary}. A publication is made by the owner of the tables, "
                "who may create in the database; a slot by a role with REPLICATION "
                "(rds_replication on Amazon RDS)."
            ) from error
        except psycopg.OperationalError as error:
            raise CommandError(f"The database is unreachable: {error}") from error
        if not any(options[name] for name in ENDS):
            _run(alias)


def _make(connection: Connection, options: Mapping[str, Any]) -> str:
    made = slots.make_feed(connection, settings().replication_slot, settings().publication)
    if options["format"] == "json":
        return json.dumps({"made": list(made)})
    return f"Made {' and '.join(made)}." if made else "Both exist."


def _drop(connection: Connection, options: Mapping[str, Any]) -> str:
    dropped = slots.drop(connection, settings().replication_slot, settings().publication)
    if options["format"] == "json":
        return json.dumps({"dropped": list(dropped)})
    return f"Dropped {' and '.join(dropped)}." if dropped else "Neither exists."


def _status(connection: Connection, options: Mapping[str, Any]) -> str:
    known = settings()
    state = engine.state(connection, known.replication_slot, known.publication)
    if options["format"] == "json":
        slot = None if state.slot is None else state.slot._asdict()
        return json.dumps({"feed": known.feed, **state._asdict(), "slot": slot})
    lines = {
        "feed": known.feed,
        "wal_level": state.wal_level,
        f"publication {known.publication}": _of_publication(state),
        f"slot {known.replication_slot}": _of_slot(state),
        "events without a position": "none"
        if state.waiting is None
        else f"the first for {state.waiting:.1f} s",
    }
    if state.is_standby:
        lines["synchronous_standby_names"] = "has '*', which takes the feed for a standby"
    width = max(map(len, lines)) + 2
    return "\n".join(f"{name:<{width}}{said}" for name, said in lines.items())


def _of_publication(state: FeedState) -> str:
    if not state.has_publication:
        return "missing"
    return "there" if state.has_inbox else "there, without the table pgqueue_event_inbox"


def _of_slot(state: FeedState) -> str:
    slot = state.slot
    if slot is None:
        return "missing"
    if slot.is_lost:
        return "lost: the WAL that it needs was removed"
    who = f"followed by pid {slot.pid}" if slot.is_active else "followed by nobody"
    danger = ", about to be removed" if slot.is_endangered else ""
    kept = f", {(slot.kept or 0) / 2**20:.1f} MB kept{danger}"
    return f"{who}; {(slot.lag or 0) / 2**20:.1f} MB of WAL behind{kept}"


def _takeover(connection: Connection, options: Mapping[str, Any]) -> str:
    said = _ready(connection, options)
    engine.take_over(connection, settings().replication_slot)
    return said


def _ready(connection: Connection, options: Mapping[str, Any]) -> str:
    """Raise errors at once that would repeat at each retry."""
    known = settings()
    slots.with_publication(connection, known.replication_slot, known.publication)
    return "" if known.fed_by else POLLED


VERBS: Mapping[str, Callable[[Connection, Mapping[str, Any]], str]] = {
    "make": _make,
    "drop": _drop,
    "status": _status,
    "takeover": _takeover,
}
ENDS = ("make", "drop", "status")


def _run(alias: str) -> None:
    feed = WalFeed(alias)
    with closing(StopRequests()) as requests, requests.on_signals(*SIGNALS):
        feed.start()
        while not requests.count and feed.is_alive():
            requests.wait(LOOK)
        has_ended = not requests.count
        feed.stop()
        feed.stopped(GRACE)
    if has_ended:
        raise CommandError("The thread that follows the WAL has ended: see the log.")
