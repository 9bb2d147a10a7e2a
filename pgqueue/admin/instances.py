"""The model instances among the arguments of a message.

Schemas of tenants have equal primary keys. So only the rows of the tenant that is entered are read:
in another schema, a key would name another row, or a table that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import DatabaseError
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _

from pgqueue.admin.links import to_object
from pgqueue.conf import settings
from pgqueue.database.savepoints import savepoints
from pgqueue.exceptions import PGQueueError
from pgqueue.redaction import MASK
from pgqueue.tasks import registry, tenants
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)


def instances(request: HttpRequest, site: Any, message: Any, payload: str) -> list[tuple[str, str]]:
    """Return the arguments of a message that are model instances: names and links.

    An instance of another tenant has no link.

    Args:
        message: Only the module of its task is imported.
        payload: The payload of the message, as JSON.
    """
    is_here = _is_here(message)
    return [
        (name, _link(request, site, *row) if is_here else _named(*row))
        for name, *row in _rows(message.task, payload)
    ]


def _is_here(message: Any) -> bool:
    """Return whether the tenant of a message is the entered one."""
    if settings().tenant is None:
        return True
    own = message.metadata if isinstance(message.metadata, Mapping) else {}
    return bool(own.get(tenants.TENANT) == tenants.current())


def _rows(task: str, payload: str) -> Iterator[tuple[str, type[Model], Any]]:
    try:
        declared = registry.find(task)
        found = [] if declared is None else declared.codec.registered(payload)
    except PGQueueError:
        return  # the payload does not fit the task
    except Exception:
        logger.exception("Importing the task %s failed", task)
        return
    for name, cls, pk in found:
        if issubclass(cls, Model) and pk != MASK:
            yield name, cls, pk


def _link(request: HttpRequest, site: Any, cls: type[Model], pk: Any) -> str:
    its = site._registry.get(cls)
    rows = its.get_queryset(request) if its else cls._base_manager.all()
    try:
        with savepoints():
            return to_object(request, site, rows.get(pk=pk))
    # DatabaseError: for example, the table is in another schema.
    except (DatabaseError, ObjectDoesNotExist, ValidationError, ValueError, TypeError):
        return format_html(
            "{}", _("%(kind)s %(pk)s: not there") % {"kind": cls._meta.verbose_name, "pk": pk}
        )


def _named(cls: type[Model], pk: Any) -> str:
    return format_html("{} {}", cls._meta.verbose_name, pk)
