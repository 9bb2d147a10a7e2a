"""Operate the groups of the event log, and read for them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, timedelta
from time import monotonic
from typing import Any

from django.core.management.base import CommandError

from pgqueue.engine.groups import GroupState
from pgqueue.events import groups
from pgqueue.events.consumers import Consumer, declared, find_consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.events.projections import SUFFIX
from pgqueue.events.rebuilding import reader_of
from pgqueue.exceptions import InvalidGroup
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import aligned
from pgqueue.management.databases import database_of
from pgqueue.options.starts import STARTS
from pgqueue.worker.stopping import SIGNALS, StopRequests

DECLARED = "(as its handler declares; without one: 1 partition, from now)"
LOOK = timedelta(seconds=1)
GRACE = 25.0  # seconds


class Command(QueueCommand):
    help = "List, run, make, reset, rebuild, resume or delete groups of the event log."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb, help in (
            ("list", "list all groups"),
            ("make", "make a group before its first reader starts"),
        ):
            own = verbs.add_parser(verb, help=help)
            if verb == "make":
                own.add_argument("group", type=arguments.group)
                own.add_argument("--partitions", type=arguments.whole(1, 1024), help=DECLARED)
                own.add_argument("--start", type=arguments.start, help=f"{STARTS} {DECLARED}")
            arguments.add_format(own)
        own = verbs.add_parser("run", help="handle the events of groups until SIGTERM")
        own.add_argument("groups", nargs="+", type=arguments.group, metavar="group")
        own = verbs.add_parser("reset", help="move a group forward or back")
        own.add_argument("group", type=arguments.group)
        own.add_argument("to", type=arguments.start, help=STARTS)
        own.add_argument(
            "--partition", type=arguments.whole(0, 1023), help="move only this one (all)"
        )
        for verb, help in (
            ("rebuild", "begin to rebuild a group from the beginning of the log"),
            ("resume", "try the failed event again"),
            ("delete", "forget a group and its position"),
        ):
            own = verbs.add_parser(verb, help=help)
            own.add_argument("group", type=arguments.group)
        for verb in ("reset", "rebuild", "resume", "delete"):
            own = verbs.choices[verb]
            arguments.add_format(own)
        arguments.add_database(parser, verbs.choices.values())

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        try:
            said = VERBS[verb](options)
        except InvalidGroup as error:
            raise CommandError(str(error)) from error
        if said:
            self.stdout.write(said)


def _list(options: Mapping[str, Any]) -> str:
    found = groups.states(database=database_of(options["database"]))
    if options["format"] == "json":
        return json.dumps([{**each._asdict(), "updated_at": _instant(each)} for each in found])
    cells: list[tuple[str, ...]] = [("group", "partitions", "position", "lag", "readers", "state")]
    cells += [(each.name, *map(str, each[1:5]), _state(each)) for each in found]
    return "\n".join(aligned(cells))


def _instant(state: GroupState) -> str:
    return state.updated_at.astimezone(UTC).isoformat()


def _state(state: GroupState) -> str:
    what = "stopped" if state.stopped else "retrying" if state.error else "-"
    return f"{what}: {state.error}" if state.error else what


def _run(options: Mapping[str, Any]) -> str:
    consumers = [_declared(name) for name in dict.fromkeys(options["groups"])]
    if options["database"]:
        alias = database_of(options["database"])
        consumers = [replace(each, database=alias) for each in consumers]
    readers = [reader_of(each) for each in consumers]
    with closing(StopRequests()) as requests, requests.on_signals(*SIGNALS):
        for reader in readers:
            reader.start()
        while not requests.count and all(reader.is_alive() for reader in readers):
            requests.wait(LOOK)
        ended = [] if requests.count else [each.name for each in readers if not each.is_alive()]
        _stop(readers, requests)
    if ended:
        raise CommandError(f"The reader of the {', '.join(ended)} has ended: see the log.")
    return ""


def _declared(name: str) -> Consumer:
    """Return the handler of a group.

    Raises:
        CommandError: the group has none here, or the import of a module with handlers fails.
    """
    consumer = _found(name)
    if consumer is None:
        known = ", ".join(each.name for each in declared()) or "none"
        raise CommandError(
            f"No handler is declared for the group {name!r} in the modules tasks and events of "
            f"your apps. The declared groups are: {known}."
        )
    return consumer


def _alias(options: Mapping[str, Any]) -> str:
    """Return the alias of a group's database: the given one, or the one that its handler declares.

    Raises:
        CommandError: the settings have no such database, or the import of a handler's module fails.
    """
    if options["database"]:
        return database_of(options["database"])
    consumer = _found(options["group"].removesuffix(SUFFIX))
    return database_of(consumer.database if consumer else None)


def _found(name: str) -> Consumer | None:
    """Return the handler of a group; None: there is none here.

    Raises:
        CommandError: the import of a module with handlers fails.
    """
    try:
        return find_consumer(name)
    except InvalidGroup:
        raise
    except Exception as error:  # the module's own
        raise CommandError(f"{type(error).__name__}: {error}") from error


def _stop(readers: Sequence[GroupReader], requests: StopRequests) -> None:
    """Stop readers; a second request, or the end of the grace period, excuses a busy one."""
    for reader in readers:
        reader.stop()
    until = monotonic() + GRACE
    for reader in readers:
        while reader.is_alive() and requests.count < 2 and monotonic() < until:
            reader.stopped(timedelta(seconds=0.1))
        if reader.is_alive():
            reader.excuse()


def _make(options: Mapping[str, Any]) -> str:
    consumer = _found(options["group"])
    given: dict[str, Any] = {"partitions": 1, "start": "now", "database": _alias(options)}
    if consumer:
        given |= {"partitions": consumer.partitions, "start": consumer.start}
    given |= {name: options[name] for name in ("partitions", "start") if options[name] is not None}
    count = groups.make(options["group"], **given)
    if options["format"] == "json":
        return json.dumps({"name": options["group"], "partitions": count})
    return f"The group {options['group']} has {count} partition{'s' if count > 1 else ''}."


def _reset(options: Mapping[str, Any]) -> str:
    position = groups.reset(
        options["group"],
        options["to"],
        partition=options["partition"],
        database=_alias(options),
    )
    if options["format"] == "json":
        return json.dumps({"name": options["group"], "position": position})
    return f"It goes on after position {position}."


def _rebuild(options: Mapping[str, Any]) -> str:
    position = groups.rebuild(options["group"], database=_alias(options))
    if options["format"] == "json":
        return json.dumps({"name": options["group"], "position": position})
    return f"Its readers rebuild it, from after position {position}."


def _resume(options: Mapping[str, Any]) -> str:
    count = groups.resume(options["group"], database=_alias(options))
    if options["format"] == "json":
        return json.dumps({"name": options["group"], "resumed": count})
    return f"Resumed {count} partition{'' if count == 1 else 's'}."


def _delete(options: Mapping[str, Any]) -> str:
    groups.delete(options["group"], database=_alias(options))
    if options["format"] == "json":
        return json.dumps({"name": options["group"], "deleted": True})
    return "Deleted."


VERBS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "list": _list,
    "run": _run,
    "make": _make,
    "reset": _reset,
    "rebuild": _rebuild,
    "resume": _resume,
    "delete": _delete,
}
