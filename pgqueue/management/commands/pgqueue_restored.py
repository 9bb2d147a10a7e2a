from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

import psycopg
from django.core.management.base import CommandError

from pgqueue.database.connections import connect
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import exports, identity
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of


class Command(QueueCommand):
    help = (
        "Declare that this database was restored to an earlier time, or is an independent copy. "
        "From now on it refuses earlier positions that are stored elsewhere: checkpoints of "
        "Spark's streams, folders of exports, and positions of browsers."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        try:
            with needing_tables(alias), connect(alias, name="restored") as connection:
                new = identity.renew(connection)
                targets = [each.name for each in exports.targets(connection)]
        except psycopg.errors.InsufficientPrivilege as error:
            raise CommandError(f"Only the owner of the tables may run this: {error}") from error
        except psycopg.OperationalError as error:
            raise CommandError(f"The database is unreachable: {error}") from error
        if options["format"] == "json":
            self.stdout.write(json.dumps({"identity": new, "exports": targets}))
            return
        self.stdout.write(f"The database is {new} now: earlier checkpoints are refused.")
        for target in targets:
            self.stdout.write(
                f"Export to another folder than {target}, and forget that one: "
                f"manage.py pgqueue_export --forget {target}"
            )
