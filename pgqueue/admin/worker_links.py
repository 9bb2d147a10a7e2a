"""Links to workers by their hosts and pids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.http import HttpRequest

from pgqueue.admin.links import to_row
from pgqueue.conf import settings
from pgqueue.models import Worker

SHORT = 8
"""Characters of the id of a worker whose row was deleted, or that the user may not see."""


class WorkerLinks:
    """Links to some workers; one statement reads all of their names.

    Args:
        ids: the ids; texts that are no ids are left out.
    """

    def __init__(self, request: HttpRequest, ids: Iterable[Any]) -> None:
        self._request = request
        wanted = {id for each in ids if (id := as_uuid(each)) is not None}
        self._names: dict[UUID, str] = {}
        if wanted and request.user.has_perm("pgqueue.view_worker"):
            rows = Worker.objects.using(settings().database).only("host", "pid")
            self._names = {row.pk: str(row) for row in rows.filter(pk__in=wanted)}

    def to(self, worker: Any) -> str:
        """Return the link to a worker; the beginning of its id if its row is gone or hidden."""
        id = as_uuid(worker)
        if id is None:
            return str(worker or "?")
        if id not in self._names:
            return f"{str(id)[:SHORT]}…"
        return to_row(self._request, "worker", id, self._names[id])


def as_uuid(value: Any) -> UUID | None:
    """Return the id of a worker; None: the value is none."""
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value) if isinstance(value, str) else None
    except ValueError:
        return None
