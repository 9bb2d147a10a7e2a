from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

from pgqueue.listing import waits
from pgqueue.listing.index import NEWEST_FIRST, STRETCH, Listing
from pgqueue.listing.messages import ended_of_flow, everything
from pgqueue.management import arguments, rows
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.selection import USAGE, add_filters, wanted
from pgqueue.models import History, Message
from pgqueue.states import Outcome, State

LIMIT = 50
LOOK_FOR = 5.0
"""The most seconds of a search that no index supports."""
ENDED = "ended"


class Page(NamedTuple):
    """Ids, and the place of the next page; None: no more ids, or `is_cut`: a list without order.

    `looked_at` messages were compared, where no index finds the wanted ones; None: all of them.
    `back_to` is when the next message was enqueued.
    """

    ids: list[int]
    next: str | None
    is_cut: bool = False
    looked_at: int | None = None
    back_to: datetime | None = None


class Command(QueueCommand):
    help = (
        "List live or ended messages. For any size of the tables, the command reads a bounded "
        "number of rows."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_filters(parser)
        parser.add_argument(
            "--state",
            choices=[*State.values, *Outcome.values, ENDED],
            help="the state or outcome of the messages; 'ended': any outcome (all live messages).",
        )
        parser.add_argument(
            "--limit",
            type=arguments.whole(least=1, most=STRETCH),
            default=LIMIT,
            metavar="N",
            help="the most messages (%(default)s).",
        )
        parser.add_argument(
            "--start",
            metavar="PLACE",
            help="continue an earlier list at the place that it printed.",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        table, listings = _listings(alias, options)
        try:
            page = _read(listings, limit=options["limit"], start=options["start"])
        except ValidationError as error:
            raise CommandError(f"--start: {error.messages[0]}", returncode=USAGE) from error
        found = rows.read(table.objects.using(alias), page.ids)
        if options["format"] == "json":
            for each in found:
                self.stdout.write(json.dumps(each))
        else:
            self.stdout.write("\n".join(rows.as_lines(found)) if found else "No messages.")
        if options["match"] and page.looked_at is not None:
            until = page.back_to and page.back_to.astimezone(UTC)
            back = f", back to {until:%Y-%m-%dT%H:%M:%SZ}" if until else ""
            self.stderr.write(f"Looked through {page.looked_at} messages{back}.")
        if page.next:
            self.stderr.write(f"There may be more: --start {shlex.quote(page.next)}")
        elif page.is_cut:
            self.stderr.write("There may be more: --limit")


def _listings(alias: str, options: Mapping[str, Any]) -> tuple[Any, list[Listing]]:
    """Return the table of the wanted messages, and its listings."""
    filters, state = wanted(options), options["state"]
    if options["waits"] and state not in (*Outcome.values, ENDED):
        filters |= {} if state is None else {"state": state}
        rest = {name: value for name, value in filters.items() if name != "id"}
        return Message, [waits.listing(Message.objects.using(alias), options["waits"], rest)]
    if state is None or state in State.values:
        filters |= {} if state is None else {"state": state}
        return Message, list(everything(Message.objects.using(alias), filters))
    filters |= {} if state == ENDED else {"outcome": state}
    ended = History.objects.using(alias)
    if "flow_id" in filters:
        return History, [ended_of_flow(ended, filters)]
    return History, [NEWEST_FIRST.listing(ended, filters)]


def _read(listings: Sequence[Listing], *, limit: int, start: str | None) -> Page:
    """Read lists, one after the other, up to a number of rows or for some time.

    Raises:
        ValidationError: `start` is no place in these lists.
    """
    number, place = _parsed(start, len(listings))
    until, ids, looked_at = monotonic() + LOOK_FOR, list[int](), 0
    while number < len(listings):
        listing = listings[number]
        stretch = listing.stretch(place)
        room = limit - len(ids)
        looked_at += listing.looks_at
        if not listing.order:
            is_cut = len(stretch.ids) > room or not stretch.is_all
            return Page(stretch.ids[:room], None, is_cut, looked_at if is_cut else None)
        if len(stretch.ids) > room:
            return Page(ids + stretch.ids[:room], _place(number, listing.place(stretch.ids[room])))
        ids += stretch.ids
        place = stretch.next
        number += place is None
        if (len(ids) == limit or monotonic() > until) and number < len(listings):
            back_to = listing.looked_back_to(stretch)
            return Page(ids, _place(number, place), looked_at=looked_at, back_to=back_to)
    return Page(ids, None)


def _place(number: int, place: str | None) -> str:
    return f"{number}:{place or ''}"


def _parsed(start: str | None, count: int) -> tuple[int, str | None]:
    number, colon, place = (start or "0:").partition(":")
    if not (colon and number.isascii() and number.isdecimal() and int(number) < count):
        raise ValidationError(f"{start!r} is no place in this list.")
    return int(number), place or None
