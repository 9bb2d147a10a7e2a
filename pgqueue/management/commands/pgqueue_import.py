import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from pgqueue.importers import SOURCES, SourceMissing, move
from pgqueue.management.base import QueueCommand


class Command(QueueCommand):
    help = (
        "Move what waits in another queue's tables over, 1 000 jobs in a transaction; or, of "
        "celery-beat, schedules. Stop that queue's producers first, and its workers; moving "
        "again takes what came since."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--from", dest="source", required=True, choices=SOURCES)
        parser.add_argument("--dry-run", action="store_true", help="only say what would be moved.")
        parser.add_argument("--format", choices=["text", "json"], default="text")

    def handle(self, *args: Any, source: str, dry_run: bool, **options: Any) -> None:
        try:
            report = move(source, dry_run=dry_run)
        except SourceMissing as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps({"moved": report.moved, "left": report.left}))
            return
        verb = "would be moved" if dry_run else "moved"
        for task, count in sorted(report.moved.items()):
            self.stdout.write(f"{count:>9} {verb}: {task}")
        for reason, count in sorted(report.left.items()):
            self.stdout.write(f"{count:>9} left: {reason}")
        self.stdout.write(f"{report.moved.total():>9} {verb}, {report.left.total()} left.")
