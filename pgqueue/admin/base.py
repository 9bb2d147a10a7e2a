from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django.contrib import admin, messages
from django.contrib.admin import FieldListFilter, helpers
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.db.models import JSONField, Model, QuerySet, TextField
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from pgqueue.admin.fields import JSONTextField
from pgqueue.conf import settings
from pgqueue.database.guard import TransactionLost
from pgqueue.database.savepoints import savepoints
from pgqueue.values.instants import local

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


WIDGETS: dict[Any, Any] = {
    JSONField: {"form_class": JSONTextField},
    # Names are TextFields, since their length has no limit in the database, but need only one line.
    TextField: {"widget": AdminTextInputWidget},
}

SWITCHES = frozenset({"paused", "paused_until", "enabled"})
"""Fields that others may change while a form is open."""


def moment_of(name: str, label: StrOrPromise) -> Callable[[Any, Any], str]:
    """Return a method of an admin that shows a time in a list, as short as on the other pages."""

    @admin.display(description=label)
    def shown(self: Any, row: Any) -> str:
        moment = getattr(row, name)
        text = date_format(local(moment), "Y-m-d H:i:s") if moment else "-"
        return format_html('<bdi class="pgqueue-time" dir="ltr">{}</bdi>', text)

    return shown


@dataclass(frozen=True)
class DoneText:
    """The texts about a change of rows.

    Args:
        said: the text for the history of a row.
        counted: the text with the number of rows, for the user who made the change.
    """

    said: StrOrPromise
    counted: Any


PAUSED = DoneText(_("Paused."), ngettext_lazy("%d paused.", "%d paused."))
RESUMED = DoneText(_("Resumed."), ngettext_lazy("%d resumed.", "%d resumed."))
ENQUEUED = DoneText(_("Enqueued."), ngettext_lazy("%d enqueued.", "%d enqueued."))


class QueueAdmin(ModelAdmin):
    """Reads and writes the queue's database, also if no router points to it."""

    formfield_overrides = WIDGETS
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("pgqueue/pages.css",)}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(settings().database)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name in SWITCHES:
            # Django must compare the field with the row when shown. Compared with the current row,
            # an old form would end a pause that somebody has made meanwhile.
            kwargs["show_hidden_initial"] = True
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Return whether a parameter of a list belongs to a filter of the list.

        Django accepts a lookup of any field. With `?secret__startswith=whsec_k` a viewer could read
        a hidden secret letter by letter, and make the database walk a table without an index.
        """
        return lookup in self.filter_parameters(request)

    def filter_parameters(self, request: HttpRequest | None) -> set[str | None]:
        """Return the names of the parameters that the filters of this list read."""
        listed = self.list_filter if request is None else self.get_list_filter(request)
        return {name for item in listed for name in self._parameters_of(item, request)}

    def _parameters_of(self, item: Any, request: HttpRequest | None) -> Iterable[str | None]:
        if isinstance(item, type) and issubclass(item, admin.SimpleListFilter):
            return [item.parameter_name]
        path, kind = item if isinstance(item, (list, tuple)) else (item, FieldListFilter.create)
        field = get_fields_from_path(self.model, path)[-1]
        found: Any = kind(field, request, {}, self.model, self, field_path=path)
        names: list[str | None] = found.expected_parameters()
        return names

    def history_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> Any:
        # Check first: Django looks for the row before, and its answer would show which ids exist.
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        return super().history_view(request, object_id, *args, **kwargs)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> Any:
        self.clean_ids(request.POST.getlist(helpers.ACTION_CHECKBOX_NAME))
        return super().response_action(request, queryset, *args, **kwargs)

    def clean_ids(self, texts: Iterable[str]) -> list[Any]:
        """Return the ids of a request as primary keys of the model.

        Raises:
            BadRequest: a text is no primary key.
        """
        field = self.opts.pk
        try:
            ids = [field.to_python(text) for text in texts]
            for id in ids:
                field.run_validators(id)
                ProhibitNullCharactersValidator()(id)
        except ValidationError as error:
            raise BadRequest(f"These are no ids of {self.opts.verbose_name_plural}.") from error
        return ids

    def save_model(self, request: HttpRequest, obj: Model, form: Any, change: bool) -> None:
        # Without force_insert, Django would overwrite an existing row of the same name.
        obj.save(using=settings().database, force_insert=not change)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        obj.delete(using=settings().database)

    def report(self, request: HttpRequest, rows: Sequence[Model], done: DoneText) -> None:
        """Write a change into the history of rows, and show the number of rows to the user."""
        for row in rows:
            self.log_change(request, row, str(done.said))
        self.message_user(request, str(done.counted % len(rows)))

    def each(
        self, request: HttpRequest, rows: Iterable[Any], verb: Callable[..., Any]
    ) -> Iterator[tuple[Any, Any]]:
        """Apply a verb to the name of each row; yield the row and the result.

        An error is shown by `in_words()`, and the others go on: the rows before it are changed
        already.
        """
        for row in rows:
            try:
                # With ATOMIC_REQUESTS, an error must not undo the changes of earlier rows.
                with savepoints():
                    result = verb(row.name, database=settings().database)
            except TransactionLost:
                raise
            except Exception as error:
                self.message_user(request, self.in_words(row, error), messages.ERROR)
            else:
                yield row, result

    def in_words(self, row: Any, error: Exception) -> str:
        """Return an error of a verb of `each()` as the user sees it."""
        raise error


class ReadOnlyAdmin(QueueAdmin):
    """Shows rows that only the engine writes."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
