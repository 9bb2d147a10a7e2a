from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from django import forms
from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Field, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.base import PAUSED, RESUMED, QueueAdmin
from pgqueue.admin.display import NOTHING
from pgqueue.admin.fields import STARTS, FewLines, PositionField, TopicsField
from pgqueue.conf import settings
from pgqueue.engine import dispatch
from pgqueue.events import groups, subscriptions
from pgqueue.exceptions import PGQueueError
from pgqueue.models import Subscription, Webhook
from pgqueue.models.subscription import SEEN_FOR, SubscriptionQuerySet
from pgqueue.options.records import Option, Record, in_section
from pgqueue.options.subscription_options import OPTIONS, checked_name
from pgqueue.tasks import redacting, scheduling
from pgqueue.tasks.options import HEAVIEST
from pgqueue.values.names import as_channel
from pgqueue.values.number_checks import as_count

F = TypeVar("F", bound="type[SubscriptionForm]")

RULE = in_section(OPTIONS, "filter")
MESSAGE = ("task", *in_section(OPTIONS, "messages"))
EXPIRY = in_section(OPTIONS, "expiry")
NEW: Any = (
    (None, {"fields": ("name", *RULE, *in_section(OPTIONS, "start"))}),
    (_("Messages"), {"fields": MESSAGE}),
    (_("Expiry"), {"fields": EXPIRY}),
)
THERE: Any = (
    (None, {"fields": ("name", *RULE, "paused")}),
    (_("Messages"), {"fields": (*MESSAGE, "priority", "weight", "max_attempts")}),
    (_("Expiry"), {"fields": (*EXPIRY, "expires_at")}),
)
PLACE: Any = (_("Progress"), {"fields": ("state", "position", "seen_at", "created_at")})
SHOWN = {"topics": "shown_topics", "where": "conditions", "params": "shown_params"}
NOT_EDITED = ("expires_at", *PLACE[1]["fields"])


def checking(record: Record) -> Callable[[F], F]:
    """Return a decorator that makes a form check its fields as a record's options are checked."""

    def decorated(form: F) -> F:
        for name, option in record.items():
            if option.is_column and not hasattr(form, f"clean_{name}"):
                setattr(form, f"clean_{name}", _cleaning(name, option))
        return form

    return decorated


def _cleaning(name: str, option: Option) -> Callable[[SubscriptionForm], Any]:
    def clean(form: SubscriptionForm) -> Any:
        is_given = form.cleaned_data[name] is not None
        return form.checked(name, (option.row_check if is_given else None) or option.check)

    return clean


@checking(OPTIONS)
class SubscriptionForm(forms.ModelForm):  # type: ignore[type-arg]
    """Refuses a subscription that the dispatch could not match, or no worker could run."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Django would look in the database of its routers or of the instance.
        self.instance._state.db = settings().database
        if "channel" in self.fields:
            self.fields["channel"].required = False
            self.fields["channel"].help_text = _("Empty: the task's.")

    def clean_predicate(self) -> str:
        return str(self.checked("predicate", subscriptions.checked_predicate))

    def clean_task(self) -> str:
        name: str = self.cleaned_data["task"]
        return self.checked("task", scheduling.known).name if name else ""

    def clean_channel(self) -> str:
        return str(self.checked("channel", as_channel)) if self.cleaned_data["channel"] else ""

    def clean_priority(self) -> int:
        return int(self.checked("priority", lambda value: as_count(value, least=-100, most=100)))

    def clean_weight(self) -> int:
        return int(self.checked("weight", lambda value: as_count(value, most=HEAVIEST)))

    def clean_max_attempts(self) -> int:
        return int(self.checked("max_attempts", as_count))

    def clean(self) -> dict[str, Any]:
        """Check that the fields fit each other."""
        given: dict[str, Any] = super().clean() or {}
        if self.instance.declared:
            return given
        if given.get("split_by") and given.get("batch") is None and "batch" not in self.errors:
            said = _("It says how a batch is split: give the batch a size, too.")
            self.add_error("split_by", said)
        if {"task", "channel"} <= given.keys() and not given["channel"]:
            if not given["task"]:
                self.add_error("channel", _("Raw messages need a channel."))
            else:
                given["channel"] = scheduling.known(given["task"]).queue_name
        return given

    def checked(self, name: str, check: Callable[[Any], Any]) -> Any:
        """Return the value of a field that a check returns.

        Raises:
            ValidationError: the value is invalid.
        """
        try:
            return check(self.cleaned_data[name])
        except (PGQueueError, TypeError, ValueError) as error:
            raise ValidationError(str(error)) from error


class NewSubscriptionForm(SubscriptionForm):
    """Also has a field for the position where the subscription begins."""

    start = PositionField(
        label=_("Start"),
        initial="now",
        help_text=format_lazy("{} {}", STARTS, _("It is matched with the events after that.")),
    )

    def clean_name(self) -> str:
        name = str(self.checked("name", checked_name))
        # Django would look in the database that its routers choose.
        if Subscription.objects.using(settings().database).filter(pk=name).exists():
            raise ValidationError(gettext("There is such a subscription already."))
        return name


class SubscriptionChangeList(ChangeList):
    """Looks up the position of the dispatch once."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.result_list = _placed(self.result_list)


class SubscriptionStateFilter(SimpleListFilter):
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            ("follows", gettext("Follows")),
            ("behind", gettext("Catches up")),
            ("paused", gettext("Paused")),
            ("failed", gettext("Paused by an error")),
            ("gone", gettext("In no worker's code")),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        is_gone = Q(declared=True) & ~Q(seen_at__gt=timezone.now() - SEEN_FOR)
        goes_on = Q(paused=False) & ~is_gone
        wanted = {
            "follows": goes_on & Q(follows=True),
            "behind": goes_on & Q(follows=False),
            "paused": Q(paused=True),
            "failed": Q(paused=True) & ~Q(error=""),
            "gone": Q(paused=False) & is_gone,
        }
        return queryset.filter(wanted.get(self.value() or "", Q()))


@admin.register(Subscription)
class SubscriptionAdmin(QueueAdmin):
    """The subscriptions, which make messages of events.

    A subscription that code declares may only be paused here. The dispatch reads all subscriptions
    at each step, so their number is in the thousands, not millions.
    """

    actions = ("pause", "resume")
    list_display = (
        "name",
        "shown_topics",
        "conditions",
        "task",
        "channel",
        "state",
        "declared",
    )
    list_filter = (SubscriptionStateFilter, "declared")
    search_fields = ("name", "task", "channel")
    ordering = ("name",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # Webhooks have their own pages.
        return super().get_queryset(request).filter(webhook=None)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return SubscriptionChangeList

    def get_form(
        self,
        request: HttpRequest,
        obj: Subscription | None = None,
        change: bool = False,
        **kwargs: Any,
    ) -> Any:
        form = SubscriptionForm if obj else NewSubscriptionForm
        return super().get_form(request, obj, change, form=form, **kwargs)

    def formfield_for_dbfield(self, db_field: Field[Any, Any], request: Any, **kwargs: Any) -> Any:
        if db_field.name == "topics":
            said = _("Such as order.paid, order.* or order.**, one in a line. None: all topics.")
            return TopicsField(label=_("Topics"), required=False, help_text=said)
        if db_field.name == "predicate":
            kwargs["widget"] = FewLines
        if db_field.name == "channel":
            kwargs["initial"] = ""
        if db_field.name == "where":
            # Django must compare the field with the current row, not with the row when shown.
            kwargs["show_hidden_initial"] = False
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def has_sql_permission(self, request: HttpRequest) -> bool:
        """Return whether the user of a request may write conditions in SQL."""
        return bool(request.user.is_superuser)

    def get_fieldsets(self, request: HttpRequest, obj: Subscription | None = None) -> Any:
        if obj is None:
            return NEW if self.has_sql_permission(request) else without_sql(NEW)
        (_, rule), *rest = THERE
        # Show a text: Django would show the array in Python's format.
        is_edited = not obj.declared and self.has_change_permission(request, obj)
        shown = [name if is_edited else SHOWN.get(name, name) for name in rule["fields"]]
        return ((None, {"fields": shown}), *rest, PLACE)

    def get_readonly_fields(
        self, request: HttpRequest, obj: Subscription | None = None
    ) -> tuple[str, ...]:
        sql = () if self.has_sql_permission(request) else ("predicate",)
        if obj is None:
            return sql
        of_code = [name for _title, part in THERE for name in part["fields"] if name != "paused"]
        fixed = of_code if obj.declared else ["name"]
        return tuple(dict.fromkeys((*fixed, *SHOWN.values(), *NOT_EDITED, *sql)))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        found = super().get_object(request, object_id, from_field)
        return found and _placed([found])[0]

    def change_view(
        self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any
    ) -> HttpResponse:
        # Messages and the overview link to a webhook as a subscription.
        rows = Webhook.objects.using(settings().database)
        is_asked_for = self.model is Subscription and self.has_view_permission(request)
        if is_asked_for and rows.filter(pk=unquote(object_id)).exists():
            url = reverse("admin:pgqueue_webhook_change", args=[object_id])
            return HttpResponseRedirect(url)
        return super().change_view(request, object_id, *args, **kwargs)

    def has_delete_permission(self, request: HttpRequest, obj: Subscription | None = None) -> bool:
        # A worker would declare it again: delete it in the code.
        return super().has_delete_permission(request, obj) and not (obj and obj.is_in_code)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if request.method == "POST":
            # Give positions to earlier events now: Django's transaction would give them none.
            groups.resolve(connections[settings().database], "now")
        return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if not change:
            created_with = {"task", *OPTIONS}
            given = {
                name: value for name, value in form.cleaned_data.items() if name in created_with
            }
            created = subscriptions.create(obj.name, database=settings().database, **given)
            obj.position = created.position
            return
        # Save only these fields: a worker may have declared the subscription again meanwhile.
        changed = set(form.changed_data)
        if "paused" in changed and not obj.paused:
            obj.error = ""
            changed.add("error")
        obj.save(using=settings().database, update_fields=changed)

    @admin.display(description=_("topics"))
    def shown_topics(self, subscription: Subscription) -> str:
        return ", ".join(subscription.topics) or "**"

    @admin.display(description=_("where"))
    def conditions(self, subscription: Subscription) -> str:
        return redacted(subscription.where)

    @admin.display(description=_("params"))
    def shown_params(self, subscription: Subscription) -> str:
        return redacted(subscription.params)

    @admin.display(description=_("state"))
    def state(self, subscription: Any) -> str:
        """Return whether the subscription makes messages; if not, the reason."""
        place: dispatch.DispatchPosition = subscription.place
        said: str = subscription.state(cursor=place.cursor, head=place.head)
        return said

    @admin.action(permissions=["change"], description=_("Pause: make no messages"))
    def pause(self, request: HttpRequest, queryset: SubscriptionQuerySet) -> None:
        changed = list(queryset.filter(paused=False))
        queryset.pause()
        self.report(request, changed, PAUSED)

    @admin.action(permissions=["change"], description=_("Resume: go on where it was"))
    def resume(self, request: HttpRequest, queryset: SubscriptionQuerySet) -> None:
        changed = list(queryset.filter(paused=True))
        queryset.resume()
        self.report(request, changed, RESUMED)


def redacted(conditions: Any) -> str:
    """Return conditions as text, redacted by the names of fields, like events."""
    return redacting.fields().redact(redacting.to_text(conditions)) if conditions else NOTHING


def without_sql(fieldsets: Any) -> Any:
    """Return the sections of a page for users who may not write SQL."""
    return tuple(
        (title, {"fields": tuple(name for name in part["fields"] if name != "predicate")})
        for title, part in fieldsets
    )


def _placed(found: Sequence[Any]) -> list[Any]:
    """Return subscriptions with the position of the dispatch."""
    place = dispatch.place(connections[settings().database])
    rows = list(found)
    for row in rows:
        row.place = place
    return rows
