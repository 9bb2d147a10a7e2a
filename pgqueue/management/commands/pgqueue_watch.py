from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, InterfaceError

from pgqueue.database.migration_check import lack_of
from pgqueue.engine.run_statistics import WINDOWS
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.watch.source import SnapshotSource


class Command(QueueCommand):
    help = (
        "Watch the queue in the terminal: channels, workers with their running messages, runs by "
        "task, and dead letters. It needs textual: pip install 'pgqueue[watch]'."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--window",
            choices=WINDOWS,
            default="hour",
            help="the period of the counted runs (%(default)s).",
        )
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        try:
            from pgqueue.management.watch.app import WatchApp
        except ImportError as error:
            raise CommandError(
                "pgqueue_watch needs textual: pip install 'pgqueue[watch]'."
            ) from error
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise CommandError("pgqueue_watch needs a terminal; pgqueue_stats needs none.")
        source = SnapshotSource(alias, options["window"])
        try:
            # An error at the start ends the command; later the view waits.
            source.look().result()
            WatchApp(source).run()
        except (DatabaseError, InterfaceError) as error:
            if lack_of(error, alias):
                raise
            raise CommandError(f"The database is unusable: {error}") from error
        finally:
            source.close()
