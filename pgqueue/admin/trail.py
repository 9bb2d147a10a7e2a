"""The audit trail of an object: its changes, from the events of its table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from pgqueue.admin.base import ModelAdmin
from pgqueue.codec.arguments import parse
from pgqueue.events.recorded import RecordedEvent
from pgqueue.events.trail import Trail, key_of, topic_of_model, trail
from pgqueue.exceptions import PGQueueError
from pgqueue.tasks import redacting


@dataclass(frozen=True)
class TrailLine:
    """A line of the trail.

    Attributes:
        what: the last word of the topic, such as "update".
        who, why: the actor and the reason; "": not given.
        changes: columns, with their old and their new values.
    """

    position: int
    at: datetime
    what: str
    who: str
    why: str
    changes: list[tuple[str, Any, Any]]

    @classmethod
    def of(cls, event: RecordedEvent) -> TrailLine:
        """Return the step of an event."""
        rows, metadata = _object_in(event.payload_json), _object_in(event.metadata_json)
        acting = metadata.get("acting")
        said = dict(acting) if isinstance(acting, Mapping) else {"user": acting or ""}
        who = said.pop("user", "")
        why = [str(said.pop("reason", ""))] + [f"{name}: {each}" for name, each in said.items()]
        return cls(
            event.position,
            event.created_at,
            event.topic.rpartition(".")[2],
            _name(who),
            ", ".join(filter(None, why)),
            _changes(rows),
        )


def _object_in(text: str | None) -> Mapping[str, Any]:
    """Return a JSON object, redacted; {}: the text has another value, or one that is unreadable."""
    try:
        value = parse("a column", redacting.fields().redact(text or "null"))
    except (PGQueueError, RecursionError, ValueError):
        # Python reads no number of 5000 digits, and nothing that is nested too deeply.
        return {}
    return value if isinstance(value, dict) else {}


def _name(who: Any) -> str:
    if isinstance(who, Mapping):
        return f"{who.get('name', '')} (#{who.get('id', '')})"
    return str(who)


def _changes(rows: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    # A user who may publish can publish any payload under the topic of a table.
    old, new, diff = (_columns(rows.get(name)) for name in ("old", "new", "diff"))
    return [(name, old.get(name), new.get(name)) for name in sorted(diff or new or old)]


def _columns(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


class AuditTrail(ModelAdmin):
    """Shows the table events of a tracked model's object on its page "History".

        @admin.register(Order)
        class OrderAdmin(AuditTrail, admin.ModelAdmin):
            pass

    The trail shows all published columns to users who may view events (`pgqueue.view_event`).
    With a schema for each tenant, it shows the events of all tenants' rows with the same key:
    override `get_audit_trail()` there.

    Attributes:
        audit_topic: The topic of the events; None: the default topic of `TrackTable`.
        audit_limit: The most events that are shown: the newest ones.
    """

    object_history_template = "admin/pgqueue/audit_trail.html"
    audit_topic: str | None = None
    audit_limit = 100

    def has_audit_permission(self, request: HttpRequest, obj: Model) -> bool:
        """Return whether the user of a request may see the trail of an object."""
        return bool(request.user.has_perm("pgqueue.view_event"))

    def get_audit_trail(self, request: HttpRequest, obj: Model) -> Trail:
        """Return the events of an object."""
        topic = self.audit_topic or topic_of_model(self.model)
        return trail(topic, key_of(obj), limit=self.audit_limit)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().history_view(request, object_id, extra_context)
        # Django has already checked that the user may see the object.
        if isinstance(response, TemplateResponse) and response.context_data is not None:
            obj = response.context_data["object"]
            if self.has_audit_permission(request, obj):
                found = self.get_audit_trail(request, obj)
                response.context_data["audit_trail"] = found
                response.context_data["audit_steps"] = [
                    TrailLine.of(event) for event in found.events
                ]
        return response
