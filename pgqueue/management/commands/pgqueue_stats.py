from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from pgqueue.engine.run_statistics import WINDOWS
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import bounded
from pgqueue.management.databases import database_of
from pgqueue.management.snapshot import as_json, look
from pgqueue.management.tables import HEADS, cells

TITLES = {
    "channels": "Channels",
    "tasks": "Runs in the last {}",
    "workers": "Workers",
    "dead": "Dead letters by error",
}


class Command(QueueCommand):
    help = (
        "Show the state of the queue: its channels, the outcomes of runs by task, the workers with "
        "their running messages, and the dead letters by error."
    )
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--channel",
            action="append",
            type=arguments.channel,
            default=[],
            metavar="NAME",
            help="only this channel; may be repeated. All workers are shown.",
        )
        parser.add_argument(
            "--window",
            choices=WINDOWS,
            default="hour",
            help="the period of the counted runs (%(default)s).",
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alias = database_of(options["database"])
        seen = look(alias, options["window"], options["channel"])
        if options["format"] == "json":
            self.stdout.write(json.dumps(as_json(seen)))
            return
        lines = cells(seen)
        for name, title in TITLES.items():
            self.stdout.write(f"{title.format(seen.window)}:")
            table = bounded([HEADS[name], *lines[name]]) if lines[name] else ["none"]
            self.stdout.write("\n".join(f"  {line}" for line in table))
