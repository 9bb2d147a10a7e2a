"""The messages of a command: chosen by their ids, or by a filter."""

from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.management.base import CommandError

from pgqueue.engine.operate import BATCH
from pgqueue.listing.messages import enqueued_before, everything
from pgqueue.management import arguments
from pgqueue.management.rows import Row, read
from pgqueue.models import Message
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating import bulk

USAGE = 2
"""The exit status for contradicting options, the same as argparse's for a single option."""


NAMES = tuple(name for name in bulk.NARROWED_BY if name != "state")
"""The filters that commands have, beside a fixed state or an option for it."""
OPTIONS: dict[str, dict[str, Any]] = {
    "channel": {"type": arguments.channel, "metavar": "NAME", "help": "their channel."},
    "key": {"type": arguments.key, "help": "their key; '' for messages without a key."},
    "task": {"type": arguments.task, "help": "the import path of their task."},
    "error": {
        "type": arguments.error,
        "metavar": "CLASS",
        "help": "the class of their last error: shop.tasks.ForkliftStuck, or ForkliftStuck.",
    },
    "flow": {"type": arguments.flow, "metavar": "ID", "help": "the id of their flow."},
    "waits": {
        "type": arguments.waits,
        "metavar": "KIND[:NAME]",
        "help": "what runs of durable tasks wait for: sleep, signal, event, call or retry; "
        "signal:approved for one name.",
    },
    "match": {
        "type": arguments.match,
        "metavar": "WHERE=VALUE",
        "help": "a value of their arguments, metadata or tags, or a part of their last error's "
        "text: args.order_id=7, meta.tenant=a, tag=import, error=no such order.",
    },
}


def add_filters(parser: ArgumentParser, *, without: Collection[str] = ()) -> None:
    """Add the options that choose messages by their columns, without some of them."""
    for name in NAMES:
        if name in without:
            continue
        parser.add_argument(f"--{name}", **OPTIONS[name])
    parser.add_argument(
        "--older-than",
        type=arguments.duration,
        metavar="S",
        help="messages that were enqueued more than this number of seconds ago.",
    )


def wanted(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required values of columns for a listing, from the options of `add_filters`."""
    given = bulk.wanted({name: options[name] for name in NAMES if options.get(name) is not None})
    if options["older_than"] is not None:
        given |= enqueued_before(options["older_than"])
    return given


@dataclass(frozen=True, kw_only=True)
class MessageSelection:
    """The messages to operate on.

    Args:
        alias: The alias of the database.
        ids: The named ids; without any, `wanted` finds the messages.
        wanted: The required values of their columns.
        is_to_cancel: Leave out dead letters, and the message that runs at the end of the flow.
    """

    alias: str
    ids: Sequence[int] = ()
    wanted: Mapping[str, Any]
    is_to_cancel: bool = False

    def batches(self) -> Iterator[list[int]]:
        """Yield the ids, at most 1 000 at a time; read them from the list stretch by stretch.

        A message that joins the list meanwhile may be included. No message comes twice.
        """
        return in_batches(self._stretches())

    def existing(self) -> Iterator[list[int]]:
        """Yield the same ids, without named messages that do not have the required values."""
        if not self.ids:
            yield from self.batches()
            return
        for batch in self.batches():
            rows = self.rows.filter(pk__in=batch, **self.wanted)
            yield sorted(rows.values_list("pk", flat=True))

    def read(self, ids: Sequence[int]) -> list[Row]:
        """Return the rows of some of the messages."""
        return read(self.rows, ids)

    @property
    def rows(self) -> MessageQuerySet:
        """All messages that the selection may contain."""
        rows = Message.objects.using(self.alias)
        return rows.to_cancel(self.wanted.get("flow_id")) if self.is_to_cancel else rows

    def _stretches(self) -> Iterator[list[int]]:
        if self.ids:
            yield sorted(set(self.ids))
            return
        for listing in everything(self.rows, self.wanted):
            yield from (stretch.ids for stretch in listing.stretches())


def in_batches(lists: Iterable[list[int]]) -> Iterator[list[int]]:
    """Yield lists of ids, 1 000 at a time at most; an empty list is yielded, too.

    So a command that is told to stop may do so while its filter finds nothing.
    """
    for ids in lists:
        for start in range(0, max(len(ids), 1), BATCH):
            yield ids[start : start + BATCH]


def selected(
    options: Mapping[str, Any], alias: str, state: str | None, *, is_to_cancel: bool = False
) -> MessageSelection:
    """Return the selection that the options choose.

    Args:
        state: The only state whose messages the command changes; None: the user chooses it.
        is_to_cancel: Leave out messages that a cancel does not end.

    Raises:
        CommandError: the options name ids and a filter, or neither.
    """
    filters = chosen(options, "state")
    if state:
        filters["state"] = state
    return MessageSelection(
        alias=alias, ids=options["ids"], wanted=filters, is_to_cancel=is_to_cancel
    )


def chosen(options: Mapping[str, Any], column: str) -> dict[str, Any]:
    """Return the required values of columns; {}: the options name ids, or all messages.

    Args:
        column: The column that the option --state is about.

    Raises:
        CommandError: the options name ids and a filter, or neither.
    """
    filters = wanted(options)
    if options.get("state"):
        filters[column] = options["state"]
    if options["ids"] and (filters or options["all"]):
        raise CommandError("Give ids, or filters: not both.", returncode=USAGE)
    if options["all"] and filters:
        raise CommandError("--all goes without filters.", returncode=USAGE)
    if not (options["ids"] or filters or options["all"]):
        raise CommandError(
            "Which messages? Give their ids, a filter such as --channel, or --all.",
            returncode=USAGE,
        )
    return filters
