"""Operate the subscriptions of the event log."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from pgqueue.events import subscriptions
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.columns import aligned
from pgqueue.management.databases import database_of
from pgqueue.models import Subscription
from pgqueue.models.subscription import SubscriptionQuerySet
from pgqueue.options.subscription_options import COLUMNS, OPTIONS
from pgqueue.tasks import redacting
from pgqueue.values.escaping import on_one_line

SHOWN = ("name", "task", *COLUMNS, "paused", "follows", "position", "declared", "error")


class Command(QueueCommand):
    help = "List, synchronize, pause, resume or delete subscriptions of the event log."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for verb, help in (
            ("list", "list all subscriptions"),
            (
                "sync",
                "store the subscriptions that the code declares, as workers do at their start",
            ),
            ("pause", "make no messages of events"),
            ("resume", "continue after its last event"),
            ("delete", "delete the subscription; its messages stay"),
        ):
            own = verbs.add_parser(verb, help=help)
            arguments.add_format(own)
            if verb not in ("list", "sync"):
                own.add_argument("name", type=arguments.name)
        arguments.add_database(parser, verbs.choices.values())

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        database = database_of(options["database"])
        rows = Subscription.objects.using(database).order_by("name")
        if verb == "list":
            said = _as_json(rows) if options["format"] == "json" else _as_text(rows)
        elif verb == "sync":
            said = _sync(database, options["format"])
        else:
            said = _do(verb, rows, options["name"], database, options["format"])
        self.stdout.write(said)


def _sync(database: str, style: str) -> str:
    try:
        names = subscriptions.synchronize(database=database)
    except PGQueueError as error:
        raise CommandError(str(error)) from error
    return json.dumps(names) if style == "json" else "\n".join(names) or "The code declares none."


def _do(verb: str, rows: SubscriptionQuerySet, name: str, database: str, style: str) -> str:
    row = rows.filter(pk=name)
    if not row.exists():
        raise CommandError(f"There is no subscription {name!r}.")
    if verb == "delete":
        subscriptions.delete(name, database=database)
        return json.dumps({"name": name, "deleted": True}) if style == "json" else "Deleted."
    if verb == "resume" and row.disabled().exists():
        raise CommandError(
            f"The webhook {name!r} is disabled: enable it by pgqueue.webhooks.enable(), or in the "
            "admin."
        )
    changed = bool(row.pause() if verb == "pause" else row.resume())
    if style == "json":
        return json.dumps({"name": name, "paused": verb == "pause", "changed": changed})
    if verb == "pause":
        return "Paused." if changed else "It was paused already."
    return "Resumed." if changed else "It was not paused."


def _as_text(rows: SubscriptionQuerySet) -> str:
    cells: list[tuple[str, ...]] = [("subscription", "topics", "task", "channel", "state")]
    cells += [
        (row.name, " ".join(row.topics) or "**", row.task or "-", row.channel, _state(row))
        for row in rows
    ]
    errors = [on_one_line(f"{row.name}: {row.error}") for row in rows if row.error]
    return "\n".join([*aligned(cells), *errors])


def _state(row: Subscription) -> str:
    if row.paused:
        return "paused"
    return "follows" if row.follows else f"after {row.position}"


def _as_json(rows: SubscriptionQuerySet) -> str:
    return json.dumps([{name: _plain(name, row) for name in SHOWN} for row in rows])


def _plain(name: str, row: Subscription) -> Any:
    value = getattr(row, name)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if name in OPTIONS and OPTIONS[name].is_json:
        return json.loads(redacting.fields().redact(redacting.to_text(value)))
    return value
