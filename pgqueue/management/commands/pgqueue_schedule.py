import json
from argparse import ArgumentParser
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import CommandError

from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import aligned
from pgqueue.management.databases import database_of
from pgqueue.models import Schedule
from pgqueue.models.schedule import ScheduleQuerySet
from pgqueue.tasks import redacting, scheduling
from pgqueue.values.escaping import on_one_line


class Command(QueueCommand):
    help = "Show, pause and run schedules."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        listing = verbs.add_parser("list", help="show the ticks and the task of each schedule.")
        arguments.add_format(listing)
        pausing = verbs.add_parser("pause", help="stop its ticks.")
        resuming = verbs.add_parser("resume", help="continue with the next tick.")
        running = verbs.add_parser("run", help="enqueue its message now, besides its ticks.")
        for verb in (pausing, resuming, running):
            verb.add_argument("name", type=arguments.name, metavar="NAME", help="the schedule's.")
            arguments.add_format(verb)
        arguments.add_database(parser, verbs.choices.values())

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        database = database_of(options["database"])
        rows = Schedule.objects.using(database).order_by("name")
        if verb == "list":
            said = {"json": _as_json, "text": _as_text}[options["format"]](rows)
        else:
            said = _do(verb, rows, options["name"], database, options["format"])
        self.stdout.write(said)


def _do(verb: str, rows: ScheduleQuerySet, name: str, database: str, style: str) -> str:
    row = rows.filter(pk=name)
    if not row.exists():
        raise CommandError(f"There is no schedule {name!r}.")
    if verb == "run":
        return _run(row.get(), database, style)
    changed = bool(row.pause() if verb == "pause" else row.resume())
    if style == "json":
        return json.dumps({"name": name, "paused": verb == "pause", "changed": changed})
    if verb == "pause":
        return "Paused." if changed else "It was paused already."
    return "Resumed." if changed else "It was not paused."


def _run(row: Schedule, database: str, style: str) -> str:
    try:
        result = scheduling.run(row.name, database=database)
    except (PGQueueError, ObjectDoesNotExist) as error:
        _, _, hidden = redacting.redacted_call(row.task, row.args, row.kwargs)
        raise CommandError(hidden(str(error))) from error
    if style == "json":
        return json.dumps({"name": row.name, "message": result.id, "came_of": result.came_of})
    if result.came_of == "existing":
        return f"Message {result.id} of it waits or runs already."
    return f"Enqueued message {result.id}."


def _as_text(rows: Iterable[Schedule]) -> str:
    """Return a line for each schedule."""
    cells = [("schedule", "next", "last", "task", "when")]
    cells += [
        (
            row.name,
            "paused" if row.paused else _instant(row.next_at),
            _instant(row.ticked_at),
            row.task,
            _when(row),
        )
        for row in rows
    ]
    errors = [on_one_line(f"{row.name}: {_error(row)}") for row in rows if row.error]
    return "\n".join([*aligned(cells), *errors])


def _as_json(rows: Iterable[Schedule]) -> str:
    return json.dumps([_as_object(row) for row in rows])


def _as_object(row: Schedule) -> dict[str, Any]:
    args, kwargs, hidden = redacting.redacted_call(row.task, row.args, row.kwargs)
    return {
        "name": row.name,
        "task": row.task,
        "cron": row.cron or None,
        "every": row.every.total_seconds() if row.every else None,
        "timezone": row.timezone,
        "args": args,
        "kwargs": kwargs,
        "missed": row.missed,
        "overlap": row.overlap,
        "paused": row.paused,
        "declared": row.declared,
        "next_at": row.next_at.isoformat() if row.next_at else None,
        "ticked_at": row.ticked_at.isoformat() if row.ticked_at else None,
        "error": hidden(row.error) or None,
    }


def _error(row: Schedule) -> str:
    _args, _kwargs, hidden = redacting.redacted_call(row.task, row.args, row.kwargs)
    return hidden(row.error)


def _when(row: Schedule) -> str:
    return f"every {row.every}" if row.every else f"{row.cron} ({row.timezone})"


def _instant(instant: datetime | None) -> str:
    return "-" if instant is None else f"{instant:%Y-%m-%d %H:%M:%S%z}"
