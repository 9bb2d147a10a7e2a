import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from pgqueue.exceptions import InvalidMessage
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.operating import importers
from pgqueue.operating.importers import SourceMissing
from pgqueue.values.discovery import is_installed
from pgqueue.values.escaping import on_one_line

if is_installed("inbox"):
    from pgqueue.inbox import importing

    AGGREGATES = list(importing.SOURCES)
else:
    AGGREGATES = []


class Command(QueueCommand):
    help = (
        "Move the waiting jobs of another queue's tables, 1 000 in a transaction; or the schedules "
        "of celery-beat. First stop the producers and workers of that queue. A second call moves "
        "later jobs. Messages of pg-transactional-outbox become events: store their subscriptions "
        "first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--from", dest="source", required=True, choices=[*importers.SOURCES, *AGGREGATES]
        )
        parser.add_argument(
            "--table", type=arguments.table, help="the table of a transactional outbox or inbox."
        )
        parser.add_argument(
            "--source",
            dest="sender",
            type=arguments.name,
            help="the source= of a transactional inbox's messages.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="move nothing; only count the jobs."
        )
        arguments.add_format(parser)

    def handle(self, *args: Any, source: str, dry_run: bool, **options: Any) -> None:
        own = {name: options[name] for name in ("table", "sender") if options[name]}
        if "table" in own and source not in AGGREGATES:
            raise CommandError(f"--table: the tables of {source} have fixed names.")
        if "sender" in own and source != "transactional-inbox":
            raise CommandError(f"--source: {source} is no inbox.")
        try:
            if source in AGGREGATES:
                report = importing.move(source, dry_run=dry_run, **own)
            else:
                report = importers.move(source, dry_run=dry_run)
        except (SourceMissing, InvalidMessage) as error:
            raise CommandError(str(error)) from error
        said = {} if report.remembered is None else {"remembered": report.remembered}
        if options["format"] == "json":
            self.stdout.write(json.dumps({"moved": report.moved, "left": report.left, **said}))
            return
        verb = "would be moved" if dry_run else "moved"
        for task, count in sorted(report.moved.items()):
            self.stdout.write(f"{count:>9} {verb}: {on_one_line(task)}")
        for reason, count in sorted(report.left.items()):
            self.stdout.write(f"{count:>9} left: {on_one_line(str(reason))}")
        self.stdout.write(f"{report.moved.total():>9} {verb}, {report.left.total()} left.")
        for what, count in said.items():
            self.stdout.write(f"{count:>9} ids of messages that were handled there are {what}.")
