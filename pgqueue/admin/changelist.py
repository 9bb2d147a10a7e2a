from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Any, ClassVar

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from pgqueue.admin.base import ReadOnlyAdmin
from pgqueue.admin.filters import Choice, TextFilter
from pgqueue.admin.tabs import ListTab
from pgqueue.listing.index import Listing, ListStretch, estimated_count, without
from pgqueue.templatetags.pgqueue_admin import grouped
from pgqueue.values.instants import local

START_VAR = "start"
LOOK_FOR = 0.1
"""The most seconds for which a page adds stretches until it is full."""


class BoundedChangeList(ChangeList):
    """Shows a stretch of a `Listing`, and the size of the rest."""

    model_admin: ListedAdmin
    start = ""

    def get_query_string(
        self, new_params: dict[str, Any] | None = None, remove: Iterable[str] | None = None
    ) -> str:
        # The place is valid only for this list: other filters make another list.
        if self.start and new_params and set(new_params) == {PAGE_VAR}:
            new_params = {**new_params, START_VAR: self.start}
        return super().get_query_string(new_params, remove)

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Any]:
        # PostgreSQL has no NUL.
        self.request = request
        self.start = request.GET.get(START_VAR, "").replace("\\u0000", "")
        self.filter_params.pop(START_VAR, None)
        # Django's queryset might walk the whole table: use only its parsed filters.
        super().get_queryset(request)
        choices = [spec for spec in self.filter_specs if isinstance(spec, Choice)]
        # The search form repeats the parameters, except parameters with an input in it.
        for name in [START_VAR, *(c.parameter_name for c in choices if isinstance(c, TextFilter))]:
            self.params.pop(name, None)
        try:
            self.chosen = {
                choice.parameter_name: value for choice in choices if (value := choice.value())
            }
            self.listing = self.model_admin.get_listing(request, self.chosen, self.query.strip())
            self.stretch = self._look()
        except ValidationError as error:
            raise IncorrectLookupParameters(error) from error
        return self.root_queryset.filter(pk__in=self.stretch.ids)

    def _look(self) -> ListStretch:
        until = monotonic() + LOOK_FOR
        stretch, self.looks = self.listing.stretch(self.start), 1
        while stretch.next and len(stretch.ids) < self.list_per_page and monotonic() < until:
            stretch, self.looks = stretch + self.listing.stretch(stretch.next), self.looks + 1
        return stretch

    def get_results(self, request: HttpRequest) -> None:
        self.paginator = Paginator(self.stretch.ids, self.list_per_page)
        page = self.paginator.get_page(self.page_num)
        with without(self.root_queryset.db, "seqscan"):
            rows = self.root_queryset.in_bulk(page.object_list)
        self.page_num = page.number
        self.result_list = [rows[id] for id in page.object_list if id in rows]
        self.result_count = self.paginator.count
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = self.paginator.num_pages > 1

    def tabs(self) -> Sequence[ListTab]:
        """Return the tabs above this list."""
        return self.model_admin.get_tabs(self.request, self)

    def notice(self) -> str:
        """Return a text with the order of this page and its part of the total."""
        said = {"order": self.listing.wording, "count": grouped(self.result_count)}
        if self.stretch.is_all:
            return _("%(order)s.") % said
        said["total"] = grouped(self._total())
        if not self.listing.sought or self.stretch.is_cut:
            if self.start:
                return _("%(order)s. The further %(count)s of about %(total)s.") % said
            return _("%(order)s. The first %(count)s of about %(total)s.") % said
        said["seen"] = grouped(self.looks * self.listing.looks_at)
        if self.start:
            text = _("%(order)s. %(count)s found among the further %(seen)s of about %(total)s.")
        else:
            text = _("%(order)s. %(count)s found among the first %(seen)s of about %(total)s.")
        if until := self.listing.looked_back_to(self.stretch):
            back = _("Looked back to %s.") % date_format(local(until), "DATETIME_FORMAT")
            return f"{text % said} {back}"
        return text % said

    def next_query_string(self) -> str:
        return self.get_query_string({START_VAR: self.stretch.next})

    def front_query_string(self) -> str:
        return self.get_query_string()

    def _total(self) -> int:
        """Return the estimated total with two digits, so that it does not look like a count."""
        count = max(estimated_count(self.listing.rows), self.result_count)
        unit: int = 10 ** max(len(str(count)) - 2, 0)
        return round(count / unit) * unit


class ListedAdmin(ReadOnlyAdmin):
    """Lists tables that may have millions of rows."""

    list_filter: ClassVar[tuple[type[Choice], ...]] = ()
    sortable_by = ()
    # Any field gives the page a search box; `get_listing` decides which column is searched.
    search_fields = ("pk",)

    def get_listing(self, request: HttpRequest, chosen: Mapping[str, str], term: str) -> Listing:
        """Return the listing for the filters and the search.

        Raises:
            ValidationError: a filter or the search has an invalid value.
        """
        raise NotImplementedError

    def get_tabs(self, request: HttpRequest, shown: BoundedChangeList) -> Sequence[ListTab]:
        """Return the tabs above a list."""
        return ()

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return BoundedChangeList
