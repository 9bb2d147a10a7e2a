import json
from argparse import ArgumentParser
from typing import Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.duties.all import all_duties
from pgqueue.duties.maintain import DutyReport, maintain
from pgqueue.events import subscribing
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.tasks import scheduling
from pgqueue.values.escaping import on_one_line
from pgqueue.values.names import AT_START


class Command(QueueCommand):
    help = (
        "Do each recurring duty of workers once, for cron on a system without workers. If a "
        "message may have lost its worker, the command waits for at most a lease."
    )
    requires_system_checks = [AT_START]

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        reports = []
        alias = database_of(options["database"])
        duties = all_duties(database=alias, scheduling=scheduling, subscribing=subscribing)
        try:
            for report in maintain(alias, duties):
                reports.append(report)
                if options["format"] == "text":
                    self.stdout.write(f"{report.name:<12}{_in_words(report)}")
        except psycopg.OperationalError as error:
            raise CommandError(f"The database is unreachable: {error}") from error
        if options["format"] == "json":
            self.stdout.write(json.dumps({each.name: _plain(each) for each in reports}))
        if failed := [each.name for each in reports if each.error]:
            raise CommandError(f"Not done: {', '.join(failed)}.")


def _in_words(report: DutyReport) -> str:
    if report.error:
        return on_one_line(f"failed: {report.error}".strip())
    parts = [f"{count} {what}" for what, count in report.did.items() if count]
    if report.is_busy:
        parts.append("another process is doing it")
    return ", ".join(parts) or "nothing to do"


def _plain(report: DutyReport) -> dict[str, Any]:
    error = {"error": str(report.error)} if report.error else {}
    return {**report.did, "is_busy": report.is_busy, **error}
