"""Commands that apply a verb to many messages, in batches with a transaction each."""

from __future__ import annotations

import json
import threading
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Protocol

from pgqueue.engine.operate import Operated
from pgqueue.management import arguments, rows
from pgqueue.management.bars import progress_bar
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.selection import MessageSelection, add_filters, selected
from pgqueue.models import Message
from pgqueue.states import State
from pgqueue.worker.stopping import SIGNALS, StopRequests

SAMPLE = 10
"""The most messages that a dry run shows."""
NAMED = 10
"""The most ids of locked messages that the report names."""
AGAIN = "Stopped: run it again for the rest."
STOPPED = 130
"""The exit status of a command that Ctrl-C has ended, as in shells."""


@dataclass
class OperationCounts:
    """The counts of messages that an operation has changed and left unchanged.

    Attributes:
        tried: The chosen messages that the operation has reached.
        done: The messages that the verb has changed.
        asked: The running messages that were asked to stop.
        busy: The messages that another transaction has locked.
        busy_ids: The first ids of locked messages.
    """

    tried: int = 0
    done: int = 0
    asked: int = 0
    busy: int = 0
    busy_ids: list[int] = field(default_factory=list)

    @property
    def unchanged(self) -> int:
        """The messages that do not exist, or are in a state that the verb does not change."""
        return self.tried - self.done - self.asked - self.busy

    def add(self, tried: int, operated: Operated) -> None:
        """Add the result of a batch."""
        self.tried += tried
        self.done += len(operated.done)
        self.asked += len(operated.asked)
        self.busy += len(operated.busy)
        room = NAMED - len(self.busy_ids)
        self.busy_ids += sorted(operated.busy)[:room]

    def counted(self, verb: str, *, is_stopped: bool) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            "verb": verb,
            "dry_run": False,
            "found": self.tried,
            "done": self.done,
            "asked": self.asked,
            "unchanged": self.unchanged,
            "busy": self.busy,
            "busy_ids": self.busy_ids,
            "stopped": is_stopped,
        }

    def said(self, done: str, otherwise: str) -> str:
        """Return the counts in a sentence.

        Args:
            done: The word for changed messages, such as "cancelled".
            otherwise: The words for unchanged messages.
        """
        parts = [f"{self.done} {done}"]
        if self.asked:
            parts.append(f"{self.asked} running and asked to stop")
        if self.unchanged:
            parts.append(f"{self.unchanged} {otherwise}")
        if self.busy:
            named = ", ".join(f"#{id}" for id in self.busy_ids)
            more = ", …" if self.busy > len(self.busy_ids) else ""
            parts.append(f"{self.busy} locked by another transaction, to be tried again "
                         f"({named}{more})")  # fmt: skip
        return f"{', '.join(parts)}."


def operate(
    batches: Iterable[list[int]],
    verb: str,
    *,
    alias: str,
    show: Callable[[int], None],
    is_to_stop: Callable[[], bool] = lambda: False,
) -> OperationCounts:
    """Apply a verb to messages, a batch at a time.

    Args:
        batches: The ids in batches, which may be empty.
        verb: A verb of `MessageQuerySet`.
        show: The function is called with the number of tried messages.
        is_to_stop: The function returns whether to stop before the next batch.
    """
    tally = OperationCounts()
    for batch in batches:
        if is_to_stop():
            break
        if batch:
            messages = Message.objects.using(alias).filter(pk__in=batch)
            tally.add(len(batch), getattr(messages, verb)())
            show(tally.tried)
    return tally


def would_be(done: str, found: int, sample: Sequence[rows.Row]) -> list[str]:
    """Return the lines of a dry run."""
    lines = [f"{found} would be {done}. Nothing was changed."]
    if sample:
        lines += rows.as_lines(sample)
    if found > len(sample) > 0:
        lines.append(f"… and {found - len(sample)} more.")
    return lines


class SampledSelection(Protocol):
    """The messages that a command is for, live or ended."""

    def existing(self) -> Iterator[list[int]]: ...

    def read(self, ids: Sequence[int]) -> list[rows.Row]: ...


def dry_run(selection: SampledSelection, verb: str, done: str, style: str) -> str:
    """Return the report of a dry run: it counts the messages, and shows the first ones."""
    found, sample = 0, list[int]()
    for batch in selection.existing():
        found += len(batch)
        sample += islice(batch, SAMPLE - len(sample))
    shown = selection.read(sample)
    if style == "json":
        return json.dumps({"verb": verb, "dry_run": True, "found": found, "sample": shown})
    return "\n".join(would_be(done, found, shown))


def add_ids(parser: ArgumentParser) -> None:
    """Add the argument for the ids of messages."""
    parser.add_argument(
        "ids", nargs="*", type=arguments.message, metavar="ID", help="the ids of messages."
    )


def add_dry_run(parser: ArgumentParser) -> None:
    """Add --dry-run, --format and --database."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="only count the messages, and show the first ones.",
    )
    arguments.add_format(parser)
    arguments.add_database(parser)


def heard(requests: StopRequests) -> AbstractContextManager[None]:
    """Let signals end the command between two batches; only the main thread handles signals."""
    is_main = threading.current_thread() is threading.main_thread()
    return requests.on_signals(*SIGNALS) if is_main else nullcontext()


class OperatingCommand(QueueCommand):
    """A command that applies one verb to the chosen messages."""

    requires_system_checks: list[str] = []
    intermixes = True
    verb: ClassVar[str]
    done: ClassVar[str]
    otherwise: ClassVar[str]
    state: ClassVar[State | None] = None
    """The required state of the messages; None: one of `states`, which the user chooses."""
    states: ClassVar[Collection[State]] = tuple(State)

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_ids(parser)
        add_filters(parser)
        if self.state is None:
            parser.add_argument(
                "--state",
                choices=[each.value for each in self.states],
                help="the state of the messages.",
            )
        parser.add_argument(
            "--all", action="store_true", help="all messages that the command applies to."
        )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        selection = selected(
            options,
            database_of(options["database"]),
            self.state,
            is_to_cancel=self.verb == "cancel",
        )
        if options["dry_run"]:
            self.stdout.write(dry_run(selection, self.verb, self.done, options["format"]))
        else:
            self._operate(selection, options["format"])

    def _operate(self, selection: MessageSelection, style: str) -> None:
        total = len(set(selection.ids))
        with (
            closing(StopRequests()) as requests,
            heard(requests),
            progress_bar(self.done) as show,
        ):
            tally = operate(
                selection.batches(),
                self.verb,
                alias=selection.alias,
                show=lambda tried: show(tried, total),
                is_to_stop=lambda: requests.count > 0,
            )
        is_stopped = requests.count > 0
        self._report(tally, style, is_stopped=is_stopped)
        if is_stopped:
            raise SystemExit(STOPPED)
        if tally.busy or (selection.ids and tally.unchanged):
            raise SystemExit(1)

    def _report(self, tally: OperationCounts, style: str, *, is_stopped: bool) -> None:
        if style == "json":
            self.stdout.write(json.dumps(tally.counted(self.verb, is_stopped=is_stopped)))
            return
        self.stdout.write(tally.said(self.done, self.otherwise))
        if is_stopped:
            self.stdout.write(AGAIN)
