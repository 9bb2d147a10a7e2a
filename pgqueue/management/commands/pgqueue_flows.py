from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.db import connections

from pgqueue.database.connections import borrow
from pgqueue.engine import flows, overview
from pgqueue.listing.flows import ENDED, LIVING, by_state
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import bounded
from pgqueue.management.databases import database_of
from pgqueue.management.rows import Row, plain
from pgqueue.models import Flow
from pgqueue.states import State
from pgqueue.tasks.flows import Progress

LIMIT = 20
MOST = 1000
STOPPED = "stopped"
HEAD = ("id", "name", "created", *Progress._fields, "")


class Command(QueueCommand):
    help = "List flows, with the number of their messages in each state."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--state",
            choices=[LIVING, ENDED, STOPPED],
            help="only flows that have not ended, flows that have ended, or flows that a dead "
            "message stops until it is replayed or discarded.",
        )
        parser.add_argument(
            "--limit",
            type=arguments.whole(least=1, most=MOST),
            default=LIMIT,
            metavar="N",
            help="the most flows (%(default)s).",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, state: str | None, limit: int, **options: Any) -> None:
        alias = database_of(options["database"])
        ids, has_more = _find(alias, state, limit)
        found = _read(alias, ids)
        if options["format"] == "json":
            for each in found:
                self.stdout.write(json.dumps(each))
        else:
            self.stdout.write("\n".join(_as_lines(found)) if found else "No flows.")
        if has_more:
            self.stderr.write("There may be more: --limit")


def _find(alias: str, state: str | None, limit: int) -> tuple[list[int], bool]:
    """Return the ids of flows, and whether more may exist."""
    if state == STOPPED:
        with borrow(alias) as connection:
            ids = [each.id for each in overview.stopped_flows(connection, limit=limit + 1)]
        return ids[:limit], len(ids) > limit
    stretch = by_state(Flow.objects.using(alias), {}, state).stretch()
    return stretch.ids[:limit], len(stretch.ids) > limit or not stretch.is_all


def _read(alias: str, ids: Sequence[int]) -> list[Row]:
    """Return the rows of some flows in the order of their ids; leave out missing ones."""
    rows = Flow.objects.using(alias).in_bulk(ids)
    words = flows.progress(connections[alias], ids)
    return [
        {
            "id": id,
            "name": rows[id].name,
            "created_at": plain(rows[id].created_at),
            "ended_at": plain(rows[id].ended_at),
            **Progress.of(words[id])._asdict(),
            "stopped": words[id][State.DEAD] > 0,
        }
        for id in ids
        if id in rows
    ]


def _as_lines(found: Sequence[Row]) -> list[str]:
    return bounded([HEAD, *map(_cells, found)])


def _cells(row: Row) -> tuple[str, ...]:
    is_over = "ended" if row["ended_at"] else ""
    return (
        str(row["id"]),
        row["name"] or "-",
        row["created_at"][:19].replace("T", " "),
        *(str(row[name]) for name in Progress._fields),
        STOPPED if row["stopped"] else is_over,
    )
