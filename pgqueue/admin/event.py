from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Case, Func, IntegerField, QuerySet, TextField, When
from django.db.models.functions import Cast, Left
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.display import NOTHING, ExcerptAdmin
from pgqueue.admin.filters import AfterFilter, TopicFilter, UptoFilter, as_position
from pgqueue.engine.lookup import id_of
from pgqueue.exceptions import InvalidFilter
from pgqueue.listing.index import Index, Listing
from pgqueue.models import Event
from pgqueue.options.filters import as_pattern, as_regex
from pgqueue.tasks import redacting

BEGINNING = 100
"""The most characters of a payload that the list shows."""
LIGHT = 8000
"""The most bytes of a payload that the list shows: it would have to read a larger one whole."""
NEWEST_FIRST = Index(order=("-position",), wording=_("The newest first"))


class _StoredSize(Func):
    function = "pg_column_size"
    output_field = IntegerField()


@admin.register(Event)
class EventAdmin(ExcerptAdmin):
    """The events of the log, the newest first; a new event appears when it has its position."""

    list_display = ("position", "topic", "key", "created_at", "beginning")
    list_filter = (TopicFilter, AfterFilter, UptoFilter)
    search_help_text = _("A position or a key")
    fields = ("position", "topic", "key", "created_at", "payload_text", "metadata_text")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        text = Left(Cast("payload", TextField()), BEGINNING + 1)
        light = rows.defer("payload", "metadata").alias(stored_size=_StoredSize("payload"))
        shown: QuerySet[Any] = light.annotate(
            payload_beginning=Case(When(stored_size__lte=LIGHT, then=text))
        )
        return shown

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Listing:
        rows: QuerySet[Event] = self.get_queryset(request)
        if after := chosen.get("after"):
            rows = rows.filter(position__gt=as_position(after))
        if upto := chosen.get("upto"):
            rows = rows.filter(position__lte=as_position(upto))
        wanted = {"topic": _topic(chosen["topic"])} if "topic" in chosen else {}
        if (id := id_of(term)) and rows.filter(pk=id).exists():
            return Listing(rows=rows.filter(pk=id), order=(), wording=_("By its position"))
        if term:
            wanted["key"] = term
        return NEWEST_FIRST.listing(rows, wanted)

    @admin.display(description=_("payload"), empty_value=NOTHING)
    def beginning(self, event: Any) -> str | None:
        text: str | None = event.payload_beginning
        if text is None:
            return None
        shown = redacting.fields().redact(text[:BEGINNING])
        return shown if len(text) <= BEGINNING else f"{shown}…"


def _topic(pattern: str) -> str | re.Pattern[str]:
    try:
        as_pattern(pattern)
    except InvalidFilter as error:
        raise ValidationError(str(error)) from error
    return re.compile(as_regex(pattern)) if "*" in pattern else pattern
