"""Find messages by their arguments, their metadata, their tags, or the text of their last error.

Without the index of `pgqueue.operations.IndexSearch`, PostgreSQL compares a bounded stretch of
messages. It skips messages with large arguments. Each message that it finds is compared once more
as people are shown it: so a redacted value is found by nobody. Encrypted arguments are not
searched.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from pgqueue.listing.index import Comparison, without
from pgqueue.redaction import Hidden
from pgqueue.tasks import redacting, registry
from pgqueue.tasks.declaration import Declaration, tasks
from pgqueue.values.readable import TOO_MUCH
from pgqueue.values.searches import ContentSearch, parsed

REACH = 1000
"""Messages that a stretch compares: their contents are read, and not only their rows."""

# The size of a stored value is known without reading it: beyond 64 KiB, a message is not compared.
# The value of a search is one parameter.
CONDITIONS = {
    "args": """CASE WHEN coalesce(pg_column_size(payload), 0) <= 65536 THEN
        (SELECT coalesce(payload @@ coalesce(v ->> task, v ->> '')::jsonpath, false)
         FROM (SELECT %s::jsonb) AS given (v)) ELSE false END""",
    "meta": """CASE WHEN coalesce(pg_column_size(payload), 0) <= 65536 THEN
        coalesce(metadata @@ %s::jsonpath, false) ELSE false END""",
    "error": """CASE WHEN coalesce(pg_column_size(payload), 0) <= 65536 THEN
        strpos(lower(coalesce(errors -> -1 ->> 'message', '')), lower(%s)) > 0 ELSE false END""",
}


def matching(text: str) -> dict[str, Comparison]:
    """Return the condition of messages that a search finds, for a listing.

    It stands at `metadata`, whatever it compares: no other condition has this column.

    Raises:
        TypeError, ValueError: the text says no search.
    """
    search = parsed(text)
    value, indexed = search.value, None
    if search.kind == "meta":
        value = search.json_path()
        indexed = "metadata @@ %s::jsonpath", value
    elif search.kind == "args":
        paths = _paths(search)
        value = json.dumps(paths)
        # The index serves no condition that differs by task.
        indexed = "payload @@ %s::jsonpath", " || ".join(sorted({*paths.values()}))
    condition = Comparison(
        CONDITIONS[search.kind],
        value,
        beside=("task", "payload", "errors"),
        reach=REACH,
        check=_ShownContent(search),
        indexed=indexed,
    )
    return {"metadata": condition}


def _paths(search: ContentSearch) -> dict[str, str]:
    """Return the conditions on payloads by task; "": of all other tasks."""
    paths = {"": search.json_path(_as_position(search.path[0]))}
    for name, task in tasks.items():
        if (position := _position(task, search.path[0])) is not None:
            paths[name] = search.json_path(position)
    return paths


def _as_position(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdecimal() and len(name) < 4 else None


def _position(task: Declaration[Any, Any] | None, name: str) -> int | None:
    """Return the place of a named argument among a call's positional ones; None: it has none."""
    if task is None or name.isdecimal():
        return _as_position(name)
    names = redacting.positional(task)
    return names.index(name) if name in names else None


@dataclass(frozen=True)
class _ShownContent:
    """Compares messages as people are shown them."""

    search: ContentSearch

    def __call__(self, rows: QuerySet[Any], ids: Sequence[int]) -> list[int]:
        """Return the ids of the messages that the search finds in what is shown."""
        chosen = rows.model._default_manager.using(rows.db).filter(pk__in=ids)
        columns = {
            f"{name}_text": Cast(name, TextField()) for name in ("payload", "metadata", "progress")
        }
        last = KeyTextTransform("message", KeyTransform(-1, "errors"))
        with without(rows.db, "seqscan"):
            found = list(chosen.values_list("pk", "task", last, *columns.values()))
        kept = {pk for pk, task, error, *texts in found
                if self._is_found(task, error, dict(zip(columns, texts, strict=True)))}  # fmt: skip
        return [id for id in ids if id in kept]

    def _is_found(self, task: str, error: str | None, columns: dict[str, str | None]) -> bool:
        shown, hidden = redacting.rules(task).redact(columns)
        if self.search.kind == "error":
            return self._is_in_error(error or "", hidden)
        name = "payload_text" if self.search.kind == "args" else "metadata_text"
        try:
            document = json.loads(shown[name] or "{}", parse_int=Decimal, parse_float=Decimal)
        except TOO_MUCH:
            return False
        position = None
        if self.search.kind == "args":
            position = _position(registry.get(task), self.search.path[0])
        return isinstance(document, dict) and self.search.is_in(document, position)

    def _is_in_error(self, text: str, hidden: Hidden) -> bool:
        return self.search.value.lower() in hidden(text).lower()
