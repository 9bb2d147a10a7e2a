from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import connections

from pgqueue.database.migration_check import needing_tables
from pgqueue.durable import signal
from pgqueue.durable.seen import SeenSteps, seen
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.models import Message
from pgqueue.redaction import Hidden
from pgqueue.tasks import scheduling
from pgqueue.tasks.signalling import check_fits

LOOKED_AT = 100
"""The last steps of the message, among which the step that waits is looked for."""


class Command(QueueCommand):
    help = "Send a signal to a message of a durable task, which waits for it now or later."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=arguments.message, metavar="ID", help="the message's.")
        parser.add_argument("name", metavar="NAME", help="the signal's.")
        parser.add_argument(
            "--payload",
            type=arguments.json_value,
            metavar="JSON",
            help='what the run gets: \'{"by": "ann"}\'. Without it: nothing.',
        )
        parser.add_argument(
            "--dedupe-id",
            metavar="ID",
            help="a text of your own for this signal: sent again, it counts once.",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def _awaited(self, database: str, id: int) -> SeenSteps:
        """Return the last steps of a message: the last one may wait for a signal."""
        with needing_tables(database):
            message = Message.objects.using(database).filter(pk=id).first()
            task = "" if message is None else message.task
            if task:
                scheduling.known(task)  # its module imports the classes of payloads
            return seen(connections[database], id, task, Hidden(()), limit=LOOKED_AT, excerpt=0)

    def handle(self, *args: Any, id: int, name: str, **options: Any) -> None:
        database = database_of(options["database"])
        payload = options["payload"]
        try:
            awaited = self._awaited(database, id)
            if (kind := awaited.type_of(name)) is not None:
                check_fits(name, payload, kind)
            is_sent = signal(id, name, payload, dedupe_id=options["dedupe_id"], database=database)
        except PGQueueError as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps({"id": id, "name": name, "sent": is_sent}))
        elif is_sent:
            others = awaited.awaited
            is_other = bool(others) and name not in others
            hint = f" It waits for {', '.join(others)}." if is_other else ""
            self.stdout.write(f"Sent {name} to message {id}.{hint}")
        else:
            self.stdout.write(f"{name} was sent to message {id} before, with this dedupe id.")
