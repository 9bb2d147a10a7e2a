from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable
from time import sleep
from typing import Any

from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.log_lines import LogLines, as_json, as_text
from pgqueue.management.story import as_lines, story
from pgqueue.tasks.log_lines import LogLine

EVERY = 1.0
"""Seconds between two looks for new log lines."""


class Command(QueueCommand):
    help = "Show all facts about one message, live or ended."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=arguments.message, metavar="ID", help="the message's.")
        parser.add_argument(
            "--logs",
            action="store_true",
            help="show the log lines of its runs instead; as JSON, a document for each line.",
        )
        parser.add_argument(
            "--follow",
            action="store_true",
            help="with --logs: show new lines, too, until the message has ended or is dead.",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, id: int, **options: Any) -> None:
        alias = database_of(options["database"])
        if options["follow"] and not options["logs"]:
            raise CommandError("--follow follows log lines: add --logs.")
        if options["logs"]:
            form = as_json if options["format"] == "json" else as_text
            self._tell_lines(alias, id, form, follows=options["follow"])
            return
        found = story(alias, id)
        if found is None:
            raise _gone(alias, id)
        if options["format"] == "json":
            self.stdout.write(json.dumps(found))
        else:
            self.stdout.write("\n".join(as_lines(found)))

    def _tell_lines(
        self, alias: str, id: int, form: Callable[[LogLine], str], *, follows: bool
    ) -> None:
        lines = LogLines(alias, id)
        while (found := lines.look()) is not None:
            for line in found:
                self.stdout.write(form(line))
            self.stdout.flush()
            if lines.is_over or not follows:
                return
            sleep(EVERY)
        raise _gone(alias, id)


def _gone(alias: str, id: int) -> CommandError:
    return CommandError(
        f"No message has the id {id} in {alias!r}: it was rolled back, or its history has "
        "been removed."
    )
