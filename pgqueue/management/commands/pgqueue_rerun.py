from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import CommandError

from pgqueue.codec.json_text import with_decimals
from pgqueue.engine.operate import Operated
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.bars import progress_bar
from pgqueue.management.base import QueueCommand, is_of_the_connection
from pgqueue.management.databases import database_of
from pgqueue.management.ended import EndedSelection, newest_ended
from pgqueue.management.operating import (
    STOPPED,
    OperationCounts,
    add_dry_run,
    add_ids,
    dry_run,
    heard,
)
from pgqueue.management.selection import USAGE, add_filters, chosen
from pgqueue.operating.reruns import rerun_each
from pgqueue.redaction import MASK, is_masked
from pgqueue.states import Outcome
from pgqueue.tasks import scheduling, tenants
from pgqueue.worker.stopping import StopRequests

DONE = "enqueued once more"
OTHERWISE = (
    "not found, not ended, of a task that is not known here, or of a flow whose results are gone"
)
NAMED = 10
"""The most ids of new messages that the report names."""


@dataclass
class _Reruns:
    """The messages that the command has reached, and their reruns.

    Attributes:
        last: The last id that was reached.
        named: The ids of the reruns of named messages, or the first ones, by the earlier ids.
        error: The error that has ended the command.
    """

    selection: EndedSelection
    counts: OperationCounts = field(default_factory=OperationCounts)
    last: int | None = None
    named: dict[int, int] = field(default_factory=dict)
    error: Exception | None = None
    is_stopped: bool = False

    def add(self, id: int, again: int | None) -> None:
        """Count a message, and its rerun if there is one."""
        self.last = id
        self.counts.add(1, Operated() if again is None else Operated(done=frozenset([id])))
        if again is not None and (self.selection.ids or len(self.named) < NAMED):
            self.named[id] = again

    def counted(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            **self.counts.counted("rerun", is_stopped=self.is_stopped),
            "reruns": {str(id): again for id, again in self.named.items()},
            "last": self.last,
            "up_to": None if self.selection.ids else self.selection.up_to,
        }

    def said(self) -> str:
        """Return the counts in sentences."""
        shown = ", ".join(f"#{id}" for id in islice(self.named.values(), NAMED))
        more = ", …" if self.counts.done > NAMED else ""
        text = self.counts.said(f"{DONE} ({shown}{more})" if shown else DONE, OTHERWISE)
        if self.is_stopped and self.last is not None:
            text += f"\nThe rest: {self._rest(self.last)}"
        return text

    def _rest(self, last: int) -> str:
        if self.selection.ids:
            return " ".join(str(id) for id in self.selection.ids if id > last)
        return f"--after {last} --up-to {self.selection.up_to}"


class Command(QueueCommand):
    help = (
        "Enqueue messages that have ended once more, in the order of their ids. Ids may also name "
        "dead letters, which stay. Arguments are JSON, as for pgqueue_enqueue."
    )
    requires_system_checks = []
    intermixes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_ids(parser)
        parser.add_argument(
            "--args",
            dest="positional",  # Django uses `args` itself
            type=arguments.json_list,
            metavar="JSON",
            help="other arguments for one message, by their position: '[7]'. Without --args and "
            "--kwargs: its own.",
        )
        parser.add_argument(
            "--kwargs",
            type=arguments.json_object,
            metavar="JSON",
            help="other arguments for one message, by their names: '{\"order_id\": 7}'.",
        )
        # An ended message waits for nothing.
        add_filters(parser, without={"waits"})
        parser.add_argument("--state", choices=Outcome.values, help="the outcome of the messages.")
        parser.add_argument("--all", action="store_true", help="all messages that have ended.")
        for name, words in {"after": "larger ids than", "up-to": "ids up to"}.items():
            parser.add_argument(
                f"--{name}",
                type=arguments.message,
                metavar="ID",
                help=f"of the messages that a filter finds, only messages with {words} this one.",
            )
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        selection = _selected(options, alias)
        if options["positional"] is not None or options["kwargs"] is not None:
            self._rerun_with(selection, options)
        elif options["dry_run"]:
            self._look(selection, options["format"])
        else:
            self._rerun(selection, options["format"])

    def _rerun_with(self, selection: EndedSelection, options: Mapping[str, Any]) -> None:
        """Enqueue one message once more, with other arguments."""
        [id], given = selection.ids, (options["positional"] or [], options["kwargs"] or {})
        if not any(selection.existing()):
            raise CommandError(f"Message {id}: {OTHERWISE}.")
        [row] = selection.read([id])
        try:
            task = scheduling.known(row["task"]).using(database=selection.alias)
            with tenants.around_stored(id, selection.metadata_of(id)):
                found = scheduling.arguments(task, *map(with_decimals, given))
            if options["dry_run"]:
                self._look(selection, options["format"])
                return
            again = task.get_result(str(id)).rerun(args=found[0], kwargs=found[1])
        except (PGQueueError, ObjectDoesNotExist) as error:
            raise CommandError(str(error)) from error
        reruns = _Reruns(selection)
        reruns.add(id, int(again.id))
        self._report(reruns, options["format"])

    def _look(self, selection: EndedSelection, style: str) -> None:
        self.stdout.write(dry_run(selection, "rerun", DONE, style))

    def _rerun(self, selection: EndedSelection, style: str) -> None:
        reruns = _Reruns(selection)
        with closing(StopRequests()) as requests, heard(requests), progress_bar(DONE) as show:
            try:
                for batch in selection.batches():
                    for id, again in rerun_each(
                        batch, database=selection.alias, is_to_stop=lambda: requests.count > 0
                    ):
                        reruns.add(id, again)
                    show(reruns.counts.tried, len(set(selection.ids)))
                    if requests.count:
                        break
            except Exception as error:
                # The report must say where the rest begins, for any error.
                reruns.error = error
        reruns.is_stopped = requests.count > 0 or reruns.error is not None
        self._report(reruns, style)

    def _report(self, reruns: _Reruns, style: str) -> None:
        self.stdout.write(json.dumps(reruns.counted()) if style == "json" else reruns.said())
        if isinstance(reruns.error, PGQueueError):
            raise CommandError(str(reruns.error)) from reruns.error
        if reruns.error is not None:
            if is_of_the_connection(reruns.error):
                # It may have been lost after a COMMIT, and before its answer.
                self.stderr.write("The first message of the rest may have been enqueued, too.")
            raise reruns.error
        if reruns.is_stopped:
            raise SystemExit(STOPPED)
        if reruns.selection.ids and reruns.counts.unchanged:
            raise SystemExit(1)


def _selected(options: Mapping[str, Any], alias: str) -> EndedSelection:
    """Return the selection that the options choose.

    Raises:
        CommandError: options contradict each other.
    """
    filters, ids = chosen(options, "outcome"), options["ids"]
    if ids and (options["after"] or options["up_to"]):
        raise CommandError("--after and --up-to go with filters, not with ids.", returncode=USAGE)
    others = [each for each in (options["positional"], options["kwargs"]) if each is not None]
    if others and len(set(ids)) != 1:
        raise CommandError("--args and --kwargs are for one message: give its id.",
                           returncode=USAGE)  # fmt: skip
    if is_masked(others):
        raise CommandError(f"{MASK} stands for a value that is not shown: give the value itself.")
    return EndedSelection(
        alias=alias,
        ids=sorted(set(ids)),
        wanted=filters,
        after=options["after"] or 0,
        up_to=options["up_to"] or newest_ended(alias),
    )
