from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from pgqueue.database.migration_check import needing_tables
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.operating.roles import PREFIX, script


class Command(QueueCommand):
    help = (
        "Print an SQL script that makes roles with the rights of a producer, a worker, an operator "
        "and a reader. Run it with psql as the owner of the tables."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--prefix",
            type=arguments.role_prefix,
            default=PREFIX,
            help="the prefix of the roles' names (%(default)s).",
        )
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        try:
            with needing_tables(alias):
                self.stdout.write(script(connections[alias], prefix=options["prefix"]))
        except ValueError as error:
            raise CommandError(f"--prefix: {error}") from error
