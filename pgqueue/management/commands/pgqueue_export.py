from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils.module_loading import import_string

from pgqueue.events import typed
from pgqueue.events.consumers import discover
from pgqueue.management.arguments import duration, folder, source, text, whole
from pgqueue.management.bars import progress_bars
from pgqueue.management.spark import (
    Result,
    SparkCommand,
    add_unredacted,
    errors_in_one_line,
    pipeline_errors,
    redaction,
)

if TYPE_CHECKING:
    from pgqueue.lake import EventTable

PARQUET = "parquet"
ALL = "all"
OF_A_LAKE = ("catalog", "source", "events", "by_channel", "compact", "expire")


class Command(SparkCommand):
    help = (
        "Export history, events and dead letters to Parquet, by day, with Spark; or, without "
        "Spark, to tables of DuckLake, Delta or Iceberg. An export adds the messages and events "
        "that are new since the last export to the same folder. It may be interrupted at any "
        "moment."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument(
            "--to",
            type=folder,
            metavar="DIR",
            help="A folder, or a URL that the writer of the format can write to, such as "
            "s3a://bucket/folder for Spark.",
        )
        target.add_argument(
            "--forget",
            type=folder,
            metavar="DIR",
            help="Export nothing; forget the exports to DIR, so that retention does not wait for "
            "the next one. The files stay.",
        )
        parser.add_argument(
            "--tables-format",
            choices=[PARQUET, "ducklake", "delta", "iceberg"],
            default=PARQUET,
            help="The format of the tables (%(default)s). All but parquet need no Spark: "
            "pip install 'pgqueue[ducklake]', 'pgqueue[delta]' or 'pgqueue[iceberg]'.",
        )
        parser.add_argument(
            "--catalog",
            type=text,
            metavar="URL",
            help="The URL of the database that has the catalog of a DuckLake (default: the queue's "
            "database) or of Iceberg (default: a SQLite file in DIR). Or env:NAME, a variable that "
            "contains it, or file:PATH, a file that contains it.",
        )
        parser.add_argument(
            "--source",
            type=source,
            metavar="NAME",
            help="The name of this database in a lake of several databases, in small letters: the "
            "column source has it. A DuckLake then needs --catalog, the same for all sources.",
        )
        parser.add_argument(
            "--events",
            type=text,
            action="append",
            default=[],
            metavar="CLASS",
            help="The import path of a class of typed events, such as shop.events.OrderPaid: write "
            "its events into a table with a column for each field, too. May be repeated. all: all "
            "classes that the modules `tasks` and `events` of the apps declare.",
        )
        parser.add_argument(
            "--by-channel",
            action="store_true",
            help="Partition new tables of a lake by channel, too, and events by topic.",
        )
        parser.add_argument(
            "--compact", action="store_true", help="Merge the small files of a lake."
        )
        parser.add_argument(
            "--expire",
            type=duration,
            metavar="SECONDS",
            help="Remove snapshots of a lake that are older, and their files.",
        )
        parser.add_argument(
            "--batch",
            type=whole(1),
            default=200_000,
            metavar="N",
            help="The most messages or events that are written at a time (%(default)s).",
        )
        add_unredacted(parser)
        super().add_arguments(parser)

    def errors(self, options: Mapping[str, Any]) -> AbstractContextManager[None]:
        """Return the context that raises errors as a CommandError; it may need no Spark."""
        needs_spark = options["tables_format"] == PARQUET and not options["forget"]
        return errors_in_one_line() if needs_spark else pipeline_errors()

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Export, or forget a target."""
        if options["forget"]:
            return _forget(url, options)
        if options["tables_format"] != PARQUET:
            return _export_to_lake(url, options)
        for name in OF_A_LAKE:
            if options[name] not in (None, False, []):
                option = name.replace("_", "-")
                raise CommandError(f"--{option} needs --tables-format ducklake, delta or iceberg.")
        return self._export(url, options)

    def _export(self, url: str, options: Mapping[str, Any]) -> Result:
        from pgqueue.arrow.targets import held_text
        from pgqueue.spark import export

        spark = self.session(options)
        with progress_bars("history", "events") as (show, show_events):
            done = export.export(
                spark,
                url=url,
                to=options["to"],
                batch=options["batch"],
                redact=redaction(options),
                progress=lambda progress: show(*progress),
                event_progress=lambda progress: show_events(*progress),
            )
        changed = export.UNREADABLE % done.unreadable + "." if done.unreadable else ""
        text = (
            f"{done.history} messages that ended, {done.events} events and {done.deadletters} "
            f"dead letters are in {options['to']}."
        )
        return Result(
            " ".join(filter(None, (text, held_text(done.held, done.held_by), changed))),
            {
                "to": options["to"],
                "history": done.history,
                "events": done.events,
                "deadletters": done.deadletters,
                "held": done.held,
                "held_by": done.held_by,
                "unreadable": done.unreadable,
            },
        )


def _export_to_lake(url: str, options: Mapping[str, Any]) -> Result:
    from pgqueue.arrow.targets import held_text
    from pgqueue.lake import export

    if options["catalog"] and options["tables_format"] == "delta":
        raise CommandError("Delta has no catalog: leave out --catalog.")
    tables = event_tables(options["events"])
    with progress_bars("history", "events") as (show, show_events):
        done = export(
            url=url,
            to=options["to"],
            tables_format=options["tables_format"],
            catalog=options["catalog"],
            source=options["source"] or "",
            events=tables,
            batch=options["batch"],
            redact=redaction(options),
            by_channel=options["by_channel"],
            compact=options["compact"],
            expire=options["expire"],
            progress=lambda progress: show(*progress),
            event_progress=lambda progress: show_events(*progress),
        )
    rows = done.rows
    text = (
        f"{rows['history']} messages that ended, {rows['attempts']} attempts, {rows['steps']} "
        f"steps, {rows['events']} events, {rows['deadletters']} dead letters and {rows['flows']} "
        f"flows are in {options['to']}."
    )
    counts = ", ".join(f"{rows[each.name]} in {each.name}" for each in tables)
    of_classes = f"Typed events: {counts}." if counts else ""
    return Result(
        " ".join(filter(None, (text, of_classes, held_text(done.held, done.held_by)))),
        {"to": options["to"], **rows, "held": done.held, "held_by": done.held_by},
    )


def event_tables(names: Sequence[str]) -> list[EventTable]:
    """Return the tables of event classes, which are named by their import paths or by `all`."""
    from pgqueue.lake import event_table

    if ALL in names:
        discover()
        return [event_table(each) for each in typed.declared()]
    return [event_table(_event_class(each)) for each in dict.fromkeys(names)]


def _event_class(name: str) -> type[typed.Event]:
    try:
        found = import_string(name)
    except (ImportError, TypeError, ValueError) as error:
        raise CommandError(f"--events {name}: {error}") from error
    if isinstance(found, type) and issubclass(found, typed.Event) and found.topic:
        return found
    raise CommandError(f"--events {name}: it must be a subclass of Event with a topic.")


def _forget(url: str, options: Mapping[str, Any]) -> Result:
    from pgqueue.arrow.targets import forget

    forget(url=url, to=options["forget"])
    text = f"{options['forget']} is forgotten: retention no longer waits for it."
    return Result(text, {"forgotten": options["forget"]})
