from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.core.management.base import CommandError

from pgqueue.codec.json_text import with_decimals
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.known_tasks import task_named
from pgqueue.management.selection import USAGE
from pgqueue.tasks import scheduling

OPTIONS = ("channel", "key", "priority", "weight", "run_after", "dedupe_key")
EXISTING = {
    "stored": "Enqueued message {}.",
    "replaced": "Message {} had its dedupe key: it has these arguments now.",
    "collected": "Message {} had its dedupe key: these arguments were added.",
    "existing": "Message {} has its dedupe key already.",
}


class Command(QueueCommand):
    help = (
        'Enqueue a task. Arguments are JSON, as in a payload: a date is "2026-11-24", and a model '
        "instance is its primary key. The task's type hints decide."
    )
    requires_system_checks = []
    intermixes = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("task", type=arguments.task, metavar="TASK", help="its import path.")
        parser.add_argument(
            "named",
            nargs="*",
            type=arguments.named_json,
            metavar="NAME=JSON",
            help="an argument by its name: order_id=7, name='\"Ada\"'.",
        )
        parser.add_argument(
            "--args",
            dest="positional",  # Django uses `args` itself
            type=arguments.json_list,
            default=[],
            metavar="JSON",
            help="arguments by their position, a list: '[7]'.",
        )
        parser.add_argument(
            "--kwargs",
            type=arguments.json_object,
            default={},
            metavar="JSON",
            help="arguments by their names, an object: '{\"order_id\": 7}'.",
        )
        parser.add_argument(
            "--channel", type=arguments.channel, metavar="NAME", help="not its own."
        )
        parser.add_argument("--key", type=arguments.key, help="the sub-queue in the channel.")
        parser.add_argument("--priority", type=arguments.priority, metavar="N", help="-100 to 100.")
        parser.add_argument(
            "--weight",
            type=arguments.weight,
            metavar="N",
            help="1 to 100: for how many messages it counts in max_running and rate.",
        )
        parser.add_argument(
            "--run-after",
            type=arguments.due,
            metavar="S",
            help="seconds from now, or a time such as 2026-11-24T08:30:00Z.",
        )
        parser.add_argument(
            "--dedupe-key",
            type=arguments.dedupe_key,
            metavar="KEY",
            help="enqueue nothing if a message with this dedupe key waits or runs.",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only check the task and its arguments."
        )
        arguments.add_format(parser)
        arguments.add_database(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        database = database_of(options["database"])
        given = {name: options[name] for name in OPTIONS if options[name] is not None}
        kwargs = _kwargs(options)
        task = task_named(options["task"])
        try:
            task = task.using(database=database, **given)
            found = scheduling.arguments(
                task, with_decimals(options["positional"]), with_decimals(kwargs)
            )
            if options["dry_run"]:
                self._say(options, {"task": task.name, "dry_run": True},
                          f"{task.name} takes these arguments. Nothing was enqueued.")  # fmt: skip
                return
            result = task.enqueue(*found[0], **found[1])
        except (PGQueueError, ObjectDoesNotExist) as error:
            raise CommandError(str(error)) from error
        if result.came_of == "dropped":
            raise CommandError(f"The channel {task.queue_name!r} is full: the message was dropped.")
        said = {
            "task": task.name,
            "dry_run": False,
            "id": int(result.id),
            "state": result.status.value,
            "channel": task.queue_name,
            "came_of": result.came_of,
        }
        self._say(options, said, EXISTING[result.came_of].format(result.id))

    def _say(self, options: Mapping[str, Any], said: Mapping[str, Any], text: str) -> None:
        self.stdout.write(json.dumps(said) if options["format"] == "json" else text)


def _kwargs(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return all named arguments.

    Raises:
        CommandError: an argument is named twice.
    """
    kwargs = dict(options["kwargs"])
    for name, value in options["named"]:
        if name in kwargs:
            raise CommandError(f"{name} is named twice.", returncode=USAGE)
        kwargs[name] = value
    return kwargs
