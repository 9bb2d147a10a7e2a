from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.management.base import CommandError

from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import aligned
from pgqueue.management.databases import database_of
from pgqueue.management.story import story

INDENT = "    "
OF_THE_BODY = ("payload", "metadata", "options", "progress", "result")
APART = (*OF_THE_BODY, "errors", "worker", "children")


class Command(QueueCommand):
    help = "Tell the whole story of one message, whether it lives or has ended."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", type=arguments.message, metavar="ID", help="the message's.")
        parser.add_argument("--format", choices=["text", "json"], default="text")
        parser.add_argument("--database", metavar="ALIAS", help="(PGQUEUE: DATABASE).")

    def handle(self, *args: Any, id: int, **options: Any) -> None:
        alias = database_of(options["database"])
        found = story(alias, id)
        if found is None:
            raise CommandError(
                f"No message has the id {id} in {alias!r}: it was rolled back, or its history is "
                "no longer kept."
            )
        if options["format"] == "json":
            self.stdout.write(json.dumps(found))
        else:
            self.stdout.write("\n".join(_lines(found)))


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    facts = {name: value for name, value in found.items() if name not in APART}
    cells = [(name.replace("_", " "), str(value)) for name, value in facts.items()
             if value is not None and value != ""]  # fmt: skip
    if worker := found["worker"]:
        cells.append(("worker", _named(worker)))
    if children := found["children"]:
        cells.append(("children", ", ".join(map(str, children))))
    yield from aligned(cells)
    for name in OF_THE_BODY:
        if found[name] not in (None, {}):
            yield f"{name}:"
            yield from _indented(json.dumps(found[name], indent=2, ensure_ascii=False))
    for error in found["errors"]:
        yield f"attempt {error.get('attempt')} failed at {error.get('at')}:"
        yield from _indented(error.get("traceback") or f"{error.get('class')}: "
                             f"{error.get('message')}")  # fmt: skip


def _named(worker: Mapping[str, Any]) -> str:
    if worker["host"] is None:
        return f"{worker['id']}, gone"
    return f"{worker['host']}:{worker['pid']} ({worker['id']})"


def _indented(text: str) -> Iterator[str]:
    for line in text.rstrip().splitlines():
        yield f"{INDENT}{line}"
