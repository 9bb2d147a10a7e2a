"""Lists of messages for commands: a line, or a JSON object, for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db.models import F, QuerySet

from pgqueue.listing.index import without
from pgqueue.listing.messages import last_error
from pgqueue.management.columns import bounded
from pgqueue.models import History

COLUMNS = ("id", "task", "channel", "key", "priority", "attempt", "failures", "max_attempts",
           "created_at", "run_at", "started_at")  # fmt: skip
HEAD = ("id", "state", "task", "channel", "key", "due or ended", "failures", "last error")

Row = Mapping[str, Any]


def read(rows: QuerySet[Any], ids: Sequence[int]) -> list[Row]:
    """Return the rows of some messages in the order of their ids; leave out missing ones."""
    is_history = issubclass(rows.model, History)
    own = {
        "state": F("outcome" if is_history else "state"),
        **({} if is_history else {"worker": F("worker_id")}),
    }
    names = (*COLUMNS, *(["finished_at"] if is_history else []))
    chosen = rows.filter(pk__in=ids).annotate(**last_error())
    with without(rows.db, "seqscan"):
        found = {each["id"]: each for each in chosen.values(*names, "error_class", "error_text",
                                                            **_renamed(own))}  # fmt: skip
    return [_as_object(found[id]) for id in ids if id in found]


def _renamed(own: Mapping[str, F]) -> dict[str, F]:
    # Django refuses an expression with the name of a column.
    return {f"shown_{name}": value for name, value in own.items()}


def _as_object(row: Row) -> Row:
    error = row["error_class"]
    return {
        "id": row["id"],
        "state": row["shown_state"],
        **{name: plain(row[name]) for name in COLUMNS[1:]},
        "finished_at": plain(row.get("finished_at")),
        "worker": plain(row.get("shown_worker")),
        "error": None if error is None else {"class": error, "message": row["error_text"]},
    }


def as_lines(found: Sequence[Row]) -> list[str]:
    """Return a table of messages."""
    return bounded([HEAD, *map(_cells, found)])


def _cells(row: Row) -> tuple[str, ...]:
    error = row["error"]
    said = "" if error is None else f"{error['class'].rpartition('.')[2]}: {error['message'] or ''}"
    return (
        str(row["id"]),
        row["state"],
        row["task"] or "-",
        row["channel"],
        row["key"] or "-",
        (row["finished_at"] or row["run_at"])[:19].replace("T", " "),
        f"{row['failures']}/{row['max_attempts']}",
        said.rstrip(": ") or "-",
    )


def plain(value: Any) -> Any:
    """Return a value for JSON: a time in ISO 8601 and UTC, or a text for an unknown type."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value if isinstance(value, str | int | float | None) else str(value)
