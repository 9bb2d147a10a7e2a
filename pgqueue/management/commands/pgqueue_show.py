from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.story import as_lines, story


class Command(QueueCommand):
    help = "Show all facts about one message, live or ended."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=arguments.message, metavar="ID", help="the message's.")
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, id: int, **options: Any) -> None:
        alias = database_of(options["database"])
        found = story(alias, id)
        if found is None:
            raise CommandError(
                f"No message has the id {id} in {alias!r}: it was rolled back, or its history has "
                "been removed."
            )
        if options["format"] == "json":
            self.stdout.write(json.dumps(found))
        else:
            self.stdout.write("\n".join(as_lines(found)))
