"""Every page of the admin, found by asking it; and a row of everything that one shows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import uuid4

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.db import connections
from django.db.models import (
    AutoField,
    DateTimeField,
    Field,
    JSONField,
    Model,
    TextField,
    UUIDField,
)
from django.utils import timezone
from django.utils.http import urlencode
from psycopg.sql import SQL, Identifier, Literal

from pgqueue import models
from pgqueue.conf import settings
from pgqueue.models.fields import NamesField
from pgqueue.operating import bulk
from pgqueue.options.webhook_options import new_secret
from tests.factories import record

ROOT = "/admin/pgqueue/"
STATES = ("held", "scheduled", "ready", "running", "dead")
COMPILED = ("exact", "regex", "eq_path", "path", "key_path", "split_path")
"""What PostgreSQL reads as an expression: no text of a user's."""


class Place(NamedTuple):
    """A page: the model that it is of, and its pattern behind that."""

    model: str
    pattern: str


def admins() -> dict[str, Any]:
    """Return the admins of our models, by the names that these have in addresses."""
    registered = admin.site._registry.items()
    return {
        str(model._meta.model_name): its
        for model, its in registered
        if model._meta.app_label == "pgqueue"
    }


def places() -> set[Place]:
    """Return all pages."""
    return {Place(name, str(each.pattern)) for name, its in admins().items() for each in its.urls}


class World(NamedTuple):
    """What pages are about: the primary keys of rows by model, and of messages by what they are."""

    text: str
    keys: Mapping[str, Any]

    def path(self, place: Place, **query: str) -> str:
        """Return the address of a page about these rows."""
        own = str(quote(str(self.keys.get(place.model, 1))))
        pattern = place.pattern.replace("<path:object_id>", own)
        found = f"{ROOT}{place.model}/{pattern.replace('<int:id>', str(self.keys['replaying']))}"
        return f"{found}?{urlencode(query)}" if query else found


def make_world(text: str = "mail") -> World:
    """Store what pages show, with a text in every column that takes one."""
    worker, later = _store(models.Worker, text).pk, timezone.now() + timedelta(hours=1)
    on = f"{text} that is on"
    error = {"attempt": 1, "worker": str(worker), "class": text, "message": text, "traceback": text}
    of_message = {
        "errors": [error],
        "worker_id": worker,
        "max_attempts": 5,
        "attempt": 2,
        "metadata": {
            "schedule": text,
            "tick": text,
            "subscription": text,
            "position": text,
            "acting": {"user": {"id": text, "name": text}},
            "replayed_from": text,
            text: text,
        },
    }
    messages = {
        state: _store(models.Message, text, **of_message, state=state, dedupe_key=f"{text} {state}")
        for state in STATES
    }
    models.Message.objects.update(parent_id=messages["dead"].pk)
    flow = _store(models.Flow, text, ended_at=None, handler_id=messages["held"].pk)
    models.Message.objects.update(flow_id=flow.pk)
    waits = {"flow_id": flow.pk, "child_id": messages["held"].pk}
    models.Dependency.objects.create(**waits, parent_id=messages["dead"].pk)
    models.Blocked.objects.create(
        message_id=messages["held"].pk,
        flow_id=flow.pk,
        watched_id=messages["dead"].pk,
        on_failure="wait",
    )
    models.Message.objects.filter(state="held").update(lease_until=None)
    _store(models.Channel, text, paused=True, paused_until=later)
    policy = _store(models.Policy, text, scope="key", max_running=1)
    _store(models.Policy, text, scope="channel", key="", max_running=1, rate=1, per=timedelta(1))
    _store(models.Lane, text, state="saturated")
    _store(models.Lane, text, key=f"{text} 2", state="throttled", wake_at=later)
    # The policy of the channel has made its gate.
    models.Gate.objects.filter(channel=text).update(wake_at=later)
    _store(models.Cursor, text, partition=0, position=0, failures=1, reader_id=uuid4())
    _store(models.Cursor, text, partition=1, position=0, failures=1, is_stopped=True)
    _store(models.Reader, text)
    ended = _store(models.History, text, **of_message, **ENDED, id=messages["dead"].pk + 10**6)
    models.History.objects.update(flow_id=flow.pk)
    recent = [messages["dead"].pk, ended.pk]
    (event,) = record(
        connections[settings().database], topic=text, key=text, payload=json.dumps({text: [text]})
    )
    models.Event.objects.update(metadata={text: text})
    of_durable = {**of_message, "task": DURABLE, "payload": CALL, "dedupe_key": f"{text} durable"}
    durable = _store(models.Message, text, **of_durable, state="held", lease_until=None)
    for name, number, given in STEPS:
        for id, its in ((durable.pk, name), (messages["dead"].pk, f"{text} {name}")):
            models.Step.objects.create(
                message_id=id, name=its, number=number, attempt=1, tries=1, **BEGAN, **given
            )
    sent = {"name": text, "payload": {text: text}, "dedupe_id": text, "taken_by": text}
    models.StoredSignal.objects.create(message_id=messages["dead"].pk, **sent)
    done = {"name": text, "number": 1, "kind": "step", "state": "done", "function": text}
    kept = {"steps": [{**done, "result": {text: text}}], "signals": []}
    own = {**of_durable, **ENDED, "steps": kept, "id": durable.pk + 10**6}
    ended_run = _store(models.History, text, **own)
    newest = bulk.newest()
    only = bulk.Filter(channel=text, task=text, key=text, error=text)
    user = {"id": 1, "name": text}
    return World(
        text,
        {
            **{f"{state} message": message.pk for state, message in messages.items()},
            "message": messages["dead"].pk,
            "durable message": durable.pk,
            "durable history": ended_run.pk,
            "history": ended.pk,
            "worker": worker,
            "flow": flow.pk,
            "policy": policy.pk,
            "event": event,
            "channel": text,
            "duty": _store(models.Duty, text).pk,
            "group": _store(models.Group, text, partitions=2).pk,
            "schedule": _store(models.Schedule, text, paused=True, recent=recent, **DAILY).pk,
            "subscription": _store(models.Subscription, text, paused=True, **ODD).pk,
            "webhook": _store(models.Webhook, text, name=f"{text} hook", paused=True, **HOOK).pk,
            "channel that is on": _store(models.Channel, text, name=on).pk,
            "schedule that is on": _store(models.Schedule, text, name=on, **DAILY, **ADD).pk,
            "subscription that is on": _store(models.Subscription, text, name=on, **ODD).pk,
            "replaying": bulk.start("replay", only, newest=newest, user=user).id,
            "discarding": bulk.start("discard", only, newest=newest, user=user).id,
            "purging": bulk.start_purge(text, newest=newest, user=user).id,
        },
    )


DURABLE = "tests.durable.tasks.asks_late"
CALL = {"args": [1], "kwargs": {}}
BEGAN = {"started_at": datetime(2026, 1, 1, tzinfo=UTC)}
STEPS: list[tuple[str, int, dict[str, Any]]] = [
    ("add", 1, {"kind": "step", "state": "done", "result": 3, "function": "add"}),
    ("wait:go", 2, {"kind": "signal", "state": "waiting", "signals": ["go"]}),
]
DAILY = {"cron": "0 3 * * *", "timezone": "UTC"}
ADD = {"task": "tests.jobs.add", "args": [1], "kwargs": {}}
ENDED: dict[str, Any] = {
    "outcome": "succeeded",
    "priority": 0,
    "failures": 1,
    "lost": 1,
    "ordered": False,
    "txid": 1,
}
ODD: dict[str, Any] = {"position": 0, "task": "tests.jobs.mail", "predicate": "", "where": {}}
HOOK: dict[str, Any] = {
    "topics": ["order.*"],
    **ODD,
    "url": "https://example.com/",
    "secret": new_secret(),
    "rotated": [],
    "failures": 3,
    "headers": {},
    "backoff": None,
    "timeout": None,
    "serializer": "",
}


def _store(model: type[Model], text: str, /, **given: Any) -> Any:
    """Store a row as it is given; what is not given is the text, where that can be."""
    own = {field.name: _value(field, text) for field in model._meta.concrete_fields}
    row = model(**{name: value for name, value in {**own, **given}.items() if value is not LEFT})
    # Not save(), which refuses what others may have stored all the same.
    row.save_base(force_insert=True)
    return row


LEFT = object()


def _value(field: Field[Any, Any], text: str) -> Any:
    if (
        field.name in COMPILED
        or field.generated
        or field.remote_field
        or isinstance(field, AutoField)
    ):
        return LEFT
    if isinstance(field, TextField):
        return field.choices[0][0] if field.choices else text
    if isinstance(field, JSONField):
        return {text: [text, {text: text}]}
    if isinstance(field, NamesField):
        return [text]
    if isinstance(field, DateTimeField):
        return timezone.now()
    if isinstance(field, UUIDField):
        return uuid4()
    return LEFT if field.null or field.has_default() or field.has_db_default() else 1


def snapshot() -> Mapping[str, str]:
    """Return what tells the contents of our tables, and of Django's log, from other contents."""
    digest = SQL("SELECT {}, md5(string_agg(t::text, ' ' ORDER BY t::text)) FROM {} AS t")
    found: dict[str, str] = {}
    names = {model._meta.db_table: model._default_manager.db for model in _models()}
    for alias in set(names.values()):
        here = [name for name in names if names[name] == alias]
        each = [digest.format(Literal(name), Identifier(name)) for name in here]
        with connections[alias].cursor() as cursor:
            cursor.execute(SQL(" UNION ALL ").join(each))
            found |= dict(cursor.fetchall())
    return found


def _models() -> Iterator[type[Model]]:
    yield LogEntry
    yield from (
        each for each in apps.get_app_config("pgqueue").get_models() if not each._meta.proxy
    )
