from __future__ import annotations

import json
import shlex
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.core.management.base import CommandError

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
"""Seconds after which it looks no further, where no index finds what is sought."""
ENDED = "ended"


class Page(NamedTuple):
    """Ids, and where to go on; None: there are no more, or `is_cut`: of what has no order."""

    ids: list[int]
    next: str | None
    is_cut: bool = False


class Command(QueueCommand):
    help = (
        "List messages: those that live, or those that ended. However many there are, it reads a "
        "bounded number."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_filters(parser)
        parser.add_argument(
            "--state",
            choices=[*State.values, *Outcome.values, ENDED],
            help="theirs, or their outcome; 'ended': any outcome. Without it: all that live.",
        )
        parser.add_argument(
            "--limit",
            type=arguments.whole(least=1, most=STRETCH),
            default=LIMIT,
            metavar="N",
            help="messages, at most (%(default)s).",
        )
        parser.add_argument(
            "--start", metavar="PLACE", help="go on where an earlier list has ended: as it says."
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
        if page.next:
            self.stderr.write(f"There may be more: --start {shlex.quote(page.next)}")
        elif page.is_cut:
            self.stderr.write("There may be more: --limit")


def _listings(alias: str, options: Mapping[str, Any]) -> tuple[Any, list[Listing]]:
    """Return the table that has what is wanted, and the lists of it."""
    filters, state = wanted(options), options["state"]
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
        ValidationError: `start` is no place in them.
    """
    number, place = _parsed(start, len(listings))
    until, ids = monotonic() + LOOK_FOR, list[int]()
    while number < len(listings):
        listing = listings[number]
        stretch = listing.stretch(place)
        room = limit - len(ids)
        if not listing.order:
            return Page(stretch.ids[:room], None, len(stretch.ids) > room or not stretch.is_all)
        if len(stretch.ids) > room:
            return Page(ids + stretch.ids[:room], _place(number, listing.place(stretch.ids[room])))
        ids += stretch.ids
        place = stretch.next
        number += place is None
        if (len(ids) == limit or monotonic() > until) and number < len(listings):
            return Page(ids, _place(number, place))
    return Page(ids, None)


def _place(number: int, place: str | None) -> str:
    return f"{number}:{place or ''}"


def _parsed(start: str | None, count: int) -> tuple[int, str | None]:
    number, colon, place = (start or "0:").partition(":")
    if not (colon and number.isascii() and number.isdecimal() and int(number) < count):
        raise ValidationError(f"{start!r} is no place in this list.")
    return int(number), place or None
