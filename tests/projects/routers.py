"""Where the tables of a project are."""

from __future__ import annotations

from typing import Any


class Queue:
    """The queue's own database has its tables, and no others."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "queue" if model._meta.app_label == "pgqueue" else None

    db_for_write = db_for_read

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool | None:
        return (db == "queue") == (app_label == "pgqueue")
