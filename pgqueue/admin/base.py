from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from django.contrib import admin
from django.contrib.admin import FieldListFilter, helpers
from django.contrib.admin.utils import get_fields_from_path
from django.contrib.admin.widgets import AdminTextInputWidget
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.core.validators import ProhibitNullCharactersValidator
from django.db.models import JSONField, Model, QuerySet, TextField
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from pgqueue.admin.fields import JSONTextField
from pgqueue.conf import settings

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

    ModelAdmin: TypeAlias = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


AS_JSON: dict[Any, Any] = {JSONField: {"form_class": JSONTextField}}
ON_ONE_LINE: dict[Any, Any] = {**AS_JSON, TextField: {"widget": AdminTextInputWidget}}
"""Names are of no length that the database knows, and no paragraphs."""


@dataclass(frozen=True)
class DoneText:
    """What was done to rows, in words.

    Args:
        said: of one of them, in its history.
        counted: of so many, to who did it.
    """

    said: StrOrPromise
    counted: Any


PAUSED = DoneText(_("Paused."), ngettext_lazy("%d paused.", "%d paused."))
RESUMED = DoneText(_("Resumed."), ngettext_lazy("%d resumed.", "%d resumed."))
ENQUEUED = DoneText(_("Enqueued."), ngettext_lazy("%d enqueued.", "%d enqueued."))


class QueueAdmin(ModelAdmin):
    """Reads and writes the queue's database, where no router points to it either."""

    formfield_overrides = AS_JSON
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css: ClassVar[dict[str, tuple[str, ...]]] = {"all": ("pgqueue/pages.css",)}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).using(settings().database)

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest | None = None) -> bool:
        """Return whether a parameter of a list belongs to one of the filters that the list shows.

        Django takes a lookup of any field: `?secret__startswith=whsec_k` would let a viewer read
        a secret that no page shows, letter by letter, and walk a table without an index.
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
        # Django looks for the row first: its answers tell which ids exist.
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
            BadRequest: one of them can't be a primary key.
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
        # By its name alone, a row that is there already would be overwritten.
        obj.save(using=settings().database, force_insert=not change)

    def delete_model(self, request: HttpRequest, obj: Model) -> None:
        obj.delete(using=settings().database)

    def report(self, request: HttpRequest, rows: Sequence[Model], done: DoneText) -> None:
        """Write into the history of rows what was done to them, and say how many there were."""
        for row in rows:
            self.log_change(request, row, str(done.said))
        self.message_user(request, str(done.counted % len(rows)))


class ReadOnlyAdmin(QueueAdmin):
    """Shows what only the engine writes."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
