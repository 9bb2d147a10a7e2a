"""The page of a message, live or ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Func, IntegerField, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Left
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from pgqueue.admin import log_lines, progress
from pgqueue.admin.changelist import ListedAdmin
from pgqueue.admin.durable import DurableAdmin
from pgqueue.admin.instances import instances
from pgqueue.admin.links import page_url
from pgqueue.admin.log_lines import live, log_lines_of
from pgqueue.admin.search import named_filter
from pgqueue.admin.steps import steps_of, tables
from pgqueue.admin.story import children, copies, story, waiting, workers_of
from pgqueue.codec.envelope import is_envelope
from pgqueue.conf import settings
from pgqueue.listing.messages import last_error
from pgqueue.tasks import redacting, tenants
from pgqueue.tasks.options import weight_of
from pgqueue.templatetags.pgqueue_admin import badge

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

EXCERPT = 64 * 1024
"""The most characters of a JSON column that are shown."""
NOTHING = "-"
TENANT_OF_ROW = KeyTextTransform(tenants.TENANT, "metadata")


class _Pretty(Func):
    # The database formats the text: it sends only the shown part, and numbers stay unchanged.
    function = "jsonb_pretty"
    output_field = TextField()


class _Size(Func):
    function = "octet_length"
    output_field = IntegerField()


def on_one_line(text: str) -> str:
    """Return a text for a cell of a list, which cuts it at the end of its line."""
    return format_html('<span class="pgqueue-cut" title="{}">{}</span>', text, text) if text else ""


def excerpt_of(name: str, label: StrOrPromise) -> Callable[[Any, Any], str]:
    """Return a method of an admin that shows a JSON column."""

    @admin.display(description=label)
    def shown(self: Any, message: Any) -> str:
        text = message.excerpts.get(f"{name}_text")
        if text is None:
            return NOTHING
        if is_envelope(text):
            return str(_("encrypted"))
        is_cut = f"{name}_text" in message.cut
        return format_html(
            '<pre class="pgqueue-excerpt" dir="ltr" tabindex="0">{}</pre>{}',
            text[:EXCERPT],
            _("… (the first %s)") % filesizeformat(EXCERPT) if is_cut else "",
        )

    return shown


class ExcerptAdmin(ListedAdmin):
    """Lists without the columns that may be large, and shows an excerpt of each."""

    json_columns: tuple[str, ...] = ("payload", "metadata")
    expressions: ClassVar[dict[str, Any]] = {}
    """The further expressions to read for a row's page."""
    newest_first: tuple[str, ...] = ()
    """The order of rows that share an id: the page shows the first of them."""

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        try:
            rows = self.get_queryset(request).filter(pk=object_id).order_by(*self.newest_first)
        except (ValidationError, ValueError):
            return None
        row = rows.first()
        if row is not None:
            texts = {f"{name}_text": Left(_Pretty(name), EXCERPT + 1) for name in self.json_columns}
            if (found := rows.values(**texts, **self.expressions).first()) is None:
                return None  # it has ended, or was purged, between the two reads
            read = {name: found[name] for name in texts}
            shown = self.redact(row, read)
            row.excerpts = {**found, **shown}
            # Redaction changes the length of a text.
            longest = {name: max(len(read[name] or ""), len(shown[name] or "")) for name in texts}
            row.cut = {name for name, length in longest.items() if length > EXCERPT}
        return row

    def redact(self, row: Any, texts: Mapping[str, str | None]) -> Mapping[str, str | None]:
        """Return the excerpts of a row, redacted."""
        by_names = redacting.fields()
        return {name: text and by_names.redact(text) for name, text in texts.items()}

    payload_text = excerpt_of("payload", _("payload"))
    metadata_text = excerpt_of("metadata", _("metadata"))


class ShownMessageAdmin(DurableAdmin, ExcerptAdmin):
    """Shows a message, live or ended."""

    change_form_template = "admin/pgqueue/shown_message.html"
    json_columns: tuple[str, ...] = ("payload", "metadata", "options", "progress")
    hidden_columns: tuple[str, ...] = ()
    """Further columns that may be large, and that the page shows in another way."""
    expressions: ClassVar[dict[str, Any]] = {
        "body_size": _Size("body"),
        "weight": KeyTransform("weight", "options"),
    }
    content = ("payload_text", "metadata_text", "progress_text", "options_text", "body_size")
    runs = (
        "attempt",
        "failures",
        "lost",
        "max_attempts",
        "worker",
        "claimed_at",
        "started_at",
        "cancel_requested_at",
    )
    order = (
        "priority",
        "weight",
        "created_at",
        "run_at",
        "expires_at",
        "ordered",
        "dedupe_key",
        "parent",
    )
    readonly_fields: ClassVar[tuple[str, ...]] = (
        *content,
        *("shown_state", "worker", "weight", "parent", "last_error"),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        light = rows.defer("body", "errors", *self.json_columns, *self.hidden_columns)
        annotated: QuerySet[Any] = light.annotate(**last_error())
        return annotated.annotate(tenant=TENANT_OF_ROW) if shows_tenants() else annotated

    def get_list_display(self, request: HttpRequest) -> Any:
        """Return the columns of the list, with the tenant where tenants are in use."""
        columns = tuple(super().get_list_display(request))
        place = columns.index("channel") + 1
        shown = ("tenant_line",) if shows_tenants() else ()
        return (*columns[:place], *shown, *columns[place:])

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields of a message that have a value; its payload always."""
        shown: Any = super().get_fieldsets(request, obj)
        if obj is None:
            return shown
        told = [
            (name, {**options, "fields": [each for each in options["fields"] if _tells(obj, each)]})
            for name, options in shown
        ]
        return [(name, options) for name, options in told if options["fields"]]

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        if self.has_view_permission(request):
            named = named_filter(request, self.get_queryset(request))
            if named is not None:
                query = request.GET.copy()
                query.pop("q")
                query.update(named)
                return HttpResponseRedirect(f"{request.path}?{query.urlencode()}")
        return super().changelist_view(request, extra_context)

    def redact(self, row: Any, texts: Mapping[str, str | None]) -> Mapping[str, str | None]:
        shown, hidden = redacting.rules(row.task).redact(texts)
        row.errors = hidden.in_value(row.errors)
        row.error_text = row.error_text and hidden(row.error_text)
        row.seen = steps_of(row, hidden)
        row.log_lines = log_lines_of(row, hidden)
        row.errors = row.seen.hidden.in_value(row.errors)
        row.error_text = row.error_text and row.seen.hidden(row.error_text)
        return shown

    def progress_section(self, message: Any) -> str:
        """Return the section with the progress of a message that lives; empty if it has none."""
        lives = hasattr(message, "state")
        return progress.section(message.excerpts["progress_text"]) if lives else ""

    @admin.display(description=_("progress"))
    def progress_text(self, message: Any) -> str:
        return format_html(
            '<div data-section="progress_text">{}</div>', self.progress_json(message)
        )

    progress_json = excerpt_of("progress", _("progress"))
    options_text = excerpt_of("options", _("options"))

    @admin.display(description=_("weight"))
    def weight(self, message: Any) -> int:
        return weight_of({"weight": message.excerpts["weight"]})

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        message = context["original"]
        payload = message.excerpts.get("payload_text") or ""
        message.workers = workers_of(request, message)
        context["story"] = story(request, message, message.seen, message.workers)
        operates = self.may_operate(request)
        context["durable"] = tables(request, message, message.seen, operates=operates)
        context["log_section"] = log_lines.section(message.log_lines)
        context["live"] = live(message)
        context["progress_section"] = self.progress_section(message)
        context["verbs"] = self.verb_links(request, message, message.seen)
        context["waiting"] = waiting(request, message)
        context["children"] = children(request, message.pk)
        context["copies"] = copies(request, message.pk)
        context["channel_url"] = page_url("channel_page", name=message.channel)
        context["key_url"] = page_url("message_key", channel=message.channel, key=message.key)
        if message.task and "payload_text" not in message.cut:
            context["instances"] = instances(request, self.admin_site, message, payload)
        return super().render_change_form(request, context, *args, **kwargs)

    @admin.display(description=_("body"))
    def body_size(self, message: Any) -> str:
        size = message.excerpts.get("body_size")
        return NOTHING if size is None else filesizeformat(size)

    @admin.display(description=_("task"))
    def task_line(self, message: Any) -> str:
        return on_one_line(message.task)

    @admin.display(description=_("tenant"))
    def tenant_line(self, message: Any) -> str:
        return on_one_line(message.tenant or "")

    @admin.display(description=_("key"))
    def key_line(self, message: Any) -> str:
        return on_one_line(message.key)

    @admin.display(description=_("last error"))
    def last_error_line(self, message: Any) -> str:
        return on_one_line(self.last_error(message) or "")

    @admin.display(description=_("state"))
    def shown_state(self, message: Any) -> str:
        return badge(getattr(message, "outcome", None) or message.state)

    @admin.display(description=_("worker"))
    def worker(self, message: Any) -> str:
        return NOTHING if message.worker_id is None else message.workers.to(message.worker_id)

    @admin.display(description=_("parent"))
    def parent(self, message: Any) -> str:
        if message.parent_id is None:
            return NOTHING
        url = reverse("admin:pgqueue_message_change", args=[message.parent_id])
        return format_html('<a href="{}">{}</a>', url, message.parent_id)

    @admin.display(description=_("last error"), empty_value="")
    def last_error(self, message: Any) -> str | None:
        if message.error_class is None:
            return None
        name = message.error_class.rpartition(".")[2]
        return f"{name}: {message.error_text}" if message.error_text else name


def shows_tenants() -> bool:
    """Return whether lists have a column for tenants: they are in use, and not redacted."""
    return settings().tenant is not None and not redacting.fields().is_field(tenants.TENANT)


def _tells(message: Any, field: str) -> bool:
    """Return whether a field of a message's page has a value other than the usual one."""
    if field in ("payload_text", "shown_state"):
        return True
    if field in message.excerpts:
        # An object without names, as PostgreSQL formats it.
        return message.excerpts[field] not in (None, "{\n}")
    columns = {"worker": "worker_id", "parent": "parent_id", "last_error": "error_class"}
    return bool(getattr(message, columns.get(field, field)))
