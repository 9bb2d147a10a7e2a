"""The search box of the lists of messages: it finds an id, a dedupe key, a key or a task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import run_statistics
from pgqueue.engine.lookup import id_of
from pgqueue.engine.run_statistics import WINDOWS
from pgqueue.listing.index import NOT_WHOLE, Listing, channels_in_use, without
from pgqueue.listing.messages import of_key
from pgqueue.models import Message
from pgqueue.models.message import LIVE
from pgqueue.tasks import registry
from pgqueue.values.names import is_own
from pgqueue.values.searches import is_search

TASKS = 200
"""The most tasks with runs that are looked up: the ones with the most runs."""


def tasks_in_use(alias: str) -> list[str]:
    """Return the tasks that ran in the last 24 hours, the most runs first, and all known ones."""
    window = WINDOWS["day"]
    with borrow(alias) as connection:
        ran = run_statistics.by_task(
            connection, period=window.period, span=window.span, limit=TASKS
        )
    known = [each.name for each in registry.each()]
    # The package's own tasks come last.
    known.sort(key=lambda name: (is_own(name), name))
    return list(dict.fromkeys([*(each.task for each in ran if each.task), *known]))


def direct(rows: QuerySet[Any], term: str) -> Listing | None:
    """Return the listing of the messages with this id or dedupe key; None: there are none.

    Only live messages are found by their dedupe keys: history has no index on them.
    """
    if (id := id_of(term)) and rows.filter(pk=id).exists():
        return Listing(rows=rows.filter(pk=id), order=("id",), wording=_("By its id"))
    if not term or rows.model is not Message:
        return None
    # An equality for each column of the unique index.
    wanted = {"channel__in": channels_in_use(rows.db), "dedupe_key": term, "state__in": LIVE}
    with without(rows.db, *NOT_WHOLE):
        ids = list(rows.filter(**wanted).values_list("pk", flat=True)[:TASKS])
    if not ids:
        return None
    return Listing(rows=rows.filter(pk__in=ids), order=("id",), wording=_("By its dedupe key"))


def named_filter(request: HttpRequest, rows: QuerySet[Any]) -> dict[str, str] | None:
    """Return the filter that the search of a list names: of contents, or of a task.

    An id and a dedupe key come first, as they do before a task.
    """
    term = request.GET.get("q", "").replace("\0", "").strip()
    if is_search(term) and not request.GET.get("match"):
        return None if direct(rows, term) or _is_key(term) else {"match": term}
    task = named_task(request, rows)
    return None if task is None else {"task": task}


def named_task(request: HttpRequest, rows: QuerySet[Any]) -> str | None:
    """Return the task that the search of a list names; None: it names none, or no single one.

    A task is named by its path, or by the end of its path. An id, a dedupe key and a key of a live
    message come first. A list that has a filter of tasks is searched by keys only.
    """
    term = request.GET.get("q", "").replace("\0", "").strip()
    if not term or request.GET.get("task"):
        return None
    names = tasks_in_use(settings().database)
    found = [name for name in names if name == term] or [
        name for name in names if name.endswith(f".{term}")
    ]
    if len(found) != 1 or direct(rows, term) is not None or _is_key(term):
        return None
    return found[0]


def _is_key(term: str) -> bool:
    rows = Message.objects.using(settings().database)
    ids: Sequence[int] = of_key(rows, {"key": term}).stretch().ids
    return bool(ids)
