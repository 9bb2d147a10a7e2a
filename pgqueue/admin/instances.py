"""The model instances among the arguments of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Model
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _

from pgqueue.admin.links import to_object
from pgqueue.exceptions import PGQueueError
from pgqueue.redaction import MASK
from pgqueue.tasks import registry
from pgqueue.values.escaping import logger_of

logger = logger_of(__name__)


def instances(request: HttpRequest, site: Any, task: str, payload: str) -> list[tuple[str, str]]:
    """Return the arguments of a message that are model instances: names and links.

    Args:
        task: The name of the message's task. The function imports only the task's module.
        payload: The payload of the message, as JSON.
    """
    return [(name, _link(request, site, *row)) for name, *row in _rows(task, payload)]


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
        return to_object(request, site, rows.get(pk=pk))
    except (ObjectDoesNotExist, ValidationError, ValueError, TypeError):
        return format_html(
            "{}", _("%(kind)s %(pk)s: not there") % {"kind": cls._meta.verbose_name, "pk": pk}
        )
