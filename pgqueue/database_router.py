"""Where Django looks for pgqueue's models: in the database that `PGQUEUE["DATABASE"]` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import router

from pgqueue.conf import settings

if TYPE_CHECKING:
    from django.db.models import Model


class QueueRouter:
    """The last router: it decides where no router of the project does, and no `using()`."""

    def db_for_read(self, model: type[Model], **hints: object) -> str | None:
        """Return the queue's database for pgqueue's models."""
        instance = hints.get("instance")
        # A row stays in the database that it was read from.
        if model._meta.app_label != "pgqueue" or (instance and instance._state.db):  # type: ignore[attr-defined]
            return None
        return settings().database

    db_for_write = db_for_read


def install() -> None:
    """Have Django ask it after the project's routers."""
    if not any(isinstance(each, QueueRouter) for each in router.routers):
        router.routers.append(QueueRouter())
