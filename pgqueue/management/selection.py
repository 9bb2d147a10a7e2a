"""Which messages a command is about: some by their ids, or all that a filter finds."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError

from pgqueue.engine.operate import BATCH
from pgqueue.listing.messages import enqueued_before, everything
from pgqueue.management import arguments
from pgqueue.models import Message
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating import bulk

USAGE = 2
"""The exit status for options that don't go together, as argparse has it for each by itself."""


NAMES = tuple(name for name in bulk.NARROWED_BY if name != "state")
"""A command has a state by itself, or an option for one."""
OPTIONS: dict[str, dict[str, Any]] = {
    "channel": {"type": arguments.channel, "metavar": "NAME", "help": "of theirs."},
    "key": {"type": arguments.key, "help": "theirs; '' for those without one."},
    "task": {"type": arguments.task, "help": "the import path of theirs."},
    "error": {
        "type": arguments.error,
        "metavar": "CLASS",
        "help": "the class of their last error: shop.tasks.ForkliftStuck, or ForkliftStuck.",
    },
    "flow": {"type": arguments.flow, "metavar": "ID", "help": "the id of the flow of theirs."},
}


def add_filters(parser: ArgumentParser) -> None:
    """Add the options that choose messages by what they are."""
    for name in NAMES:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    parser.add_argument(
        "--older-than",
        type=arguments.duration,
        metavar="S",
        help="they were enqueued more than so many seconds ago.",
    )


def wanted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the options of `add_filters` want columns to be, for a listing."""
    given = bulk.wanted({name: options[name] for name in NAMES if options[name] is not None})
    if options["older_than"] is not None:
        given |= enqueued_before(options["older_than"])
    return given


@dataclass(frozen=True, kw_only=True)
class MessageSelection:
    """Messages that are operated on.

    Args:
        alias: the database.
        ids: those that were named; none: `wanted` finds them.
        wanted: what their columns are.
        is_to_cancel: leave out dead letters, and what runs at the end of the flow that is wanted.
    """

    alias: str
    ids: Sequence[int] = ()
    wanted: Mapping[str, Any]
    is_to_cancel: bool = False

    def batches(self) -> Iterator[list[int]]:
        """Yield their ids, 1 000 at a time at most; a stretch of them is looked for at a time.

        What comes into the list meanwhile may be among them, and none is twice.
        """
        for ids in self._stretches():
            for start in range(0, len(ids), BATCH):
                yield ids[start : start + BATCH]

    def existing(self) -> Iterator[list[int]]:
        """Yield the same without the named ones that are no longer what is wanted."""
        if not self.ids:
            yield from self.batches()
            return
        for batch in self.batches():
            rows = self.rows.filter(pk__in=batch, **self.wanted)
            yield sorted(rows.values_list("pk", flat=True))

    @property
    def rows(self) -> MessageQuerySet:
        """All messages that may be found."""
        rows = Message.objects.using(self.alias)
        return rows.to_cancel(self.wanted.get("flow_id")) if self.is_to_cancel else rows

    def _stretches(self) -> Iterator[list[int]]:
        if self.ids:
            yield sorted(set(self.ids))
            return
        for listing in everything(self.rows, self.wanted):
            stretch = listing.stretch()
            yield stretch.ids
            while stretch.next:
                stretch = listing.stretch(stretch.next)
                yield stretch.ids


def selected(
    options: Mapping[str, Any], alias: str, state: str | None, *, is_to_cancel: bool = False
) -> MessageSelection:
    """Return what the options choose.

    Args:
        state: the one state in which the command does something to messages; None: it is chosen.
        is_to_cancel: leave out what no cancel ends.

    Raises:
        CommandError: they name ids and a filter, or nothing.
    """
    filters = wanted(options)
    if chosen := options.get("state"):
        filters["state"] = chosen
    if options["ids"] and (filters or options["all"]):
        raise CommandError("Give ids, or filters: not both.", returncode=USAGE)
    if options["all"] and filters:
        raise CommandError("--all goes without filters.", returncode=USAGE)
    if not (options["ids"] or filters or options["all"]):
        raise CommandError(
            "Which messages? Give their ids, a filter such as --channel, or --all.",
            returncode=USAGE,
        )
    if state:
        filters["state"] = state
    return MessageSelection(
        alias=alias, ids=options["ids"], wanted=filters, is_to_cancel=is_to_cancel
    )
