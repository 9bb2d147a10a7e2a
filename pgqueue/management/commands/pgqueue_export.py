from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from pgqueue.management.arguments import folder, whole
from pgqueue.management.bars import progress_bars
from pgqueue.management.spark import Result, SparkCommand, add_unredacted, redaction


class Command(SparkCommand):
    help = (
        "Export history, events and dead letters to Parquet, by day, with Spark. An export adds "
        "the messages and events that are new since the last export to the same folder. It may be "
        "interrupted at any moment."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument(
            "--to",
            type=folder,
            metavar="DIR",
            help="A folder, or a URL that Spark can write to, such as s3a://bucket/folder.",
        )
        target.add_argument(
            "--forget",
            type=folder,
            metavar="DIR",
            help="Export nothing; forget the exports to DIR, so that retention does not wait for "
            "the next one. The files stay.",
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

    def run(self, url: str, options: Mapping[str, Any]) -> Result:
        """Export, or forget a target."""
        return _forget(url, options) if options["forget"] else self._export(url, options)

    def _export(self, url: str, options: Mapping[str, Any]) -> Result:
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
        held = f" {export.HELD % (done.held, done.held_by or export.UNKNOWN)}." if done.held else ""
        changed = f" {export.UNREADABLE % done.unreadable}." if done.unreadable else ""
        return Result(
            f"{done.history} messages that ended, {done.events} events and {done.deadletters} "
            f"dead letters are in {options['to']}.{held}{changed}",
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


def _forget(url: str, options: Mapping[str, Any]) -> Result:
    from pgqueue.spark.export import forget

    forget(url=url, to=options["forget"])
    text = f"{options['forget']} is forgotten: retention no longer waits for it."
    return Result(text, {"forgotten": options["forget"]})
