from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from pgqueue.durable import signal
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of


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

    def handle(self, *args: Any, id: int, name: str, **options: Any) -> None:
        database = database_of(options["database"])
        try:
            is_sent = signal(
                id,
                name,
                options["payload"],
                dedupe_id=options["dedupe_id"],
                database=database,
            )
        except PGQueueError as error:
            raise CommandError(str(error)) from error
        if options["format"] == "json":
            self.stdout.write(json.dumps({"id": id, "name": name, "sent": is_sent}))
        elif is_sent:
            self.stdout.write(f"Sent {name} to message {id}.")
        else:
            self.stdout.write(f"{name} was sent to message {id} before, with this dedupe id.")
