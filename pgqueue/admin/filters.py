"""The filters of lists: each only reads its parameter, and `get_listing` applies it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.contrib.admin import SimpleListFilter
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from pgqueue.admin.search import tasks_in_use
from pgqueue.conf import settings
from pgqueue.exceptions import InvalidTenant
from pgqueue.listing.index import channels_in_use
from pgqueue.operating.bulk import GOVERNED
from pgqueue.states import Outcome, State
from pgqueue.tasks import tenants
from pgqueue.values.escaping import logger_of
from pgqueue.values.searches import as_search
from pgqueue.values.waits import KINDS, as_wait

logger = logger_of(__name__)

MOST_TENANTS = 100
"""The most tenants that a list offers to choose from."""


class Choice(SimpleListFilter):
    """A parameter that `get_listing` applies."""

    parameter_name: str

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset


def state_label(state: str) -> str:
    """Return the label of a state in a list's filter."""
    if state == GOVERNED:
        return gettext("Ready, under a limit or in order")
    return str(State(state).label)


def tenants_in_use() -> list[str]:
    """Return the first names of the project's tenants; none if it has no function for them."""
    if settings().tenant is None:
        return []
    try:
        return tenants.every()[:MOST_TENANTS]
    except InvalidTenant:
        return []
    except Exception:
        logger.warning("The list has no tenants to choose from: all() has failed", exc_info=True)
        return []


class StateFilter(Choice):
    template = "admin/pgqueue/tabs_filter.html"
    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        ready = (State.READY.value, GOVERNED)
        others = [state.value for state in State if state != State.READY]
        return [(state, state_label(state)) for state in (*ready, *others)]


class OutcomeFilter(Choice):
    template = "admin/pgqueue/tabs_filter.html"
    title = _("outcome")
    parameter_name = "outcome"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(outcome.value, str(outcome.label)) for outcome in Outcome]


class TextFilter(Choice):
    """A filter with a text field for an exact value."""

    template = "admin/pgqueue/text_filter.html"
    input_type = "text"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return []

    def has_output(self) -> bool:
        return True

    def value(self) -> str | None:
        # PostgreSQL has no NUL.
        return (super().value() or "").replace("\0", "").strip() or None

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        return self.all_of(changelist)

    def all_of(self, changelist: ChangeList) -> Iterator[Any]:
        """Yield the choice of any value."""
        yield {
            "selected": self.value() is None,
            "query_string": changelist.get_query_string(remove=[self.parameter_name]),
            "display": _("All"),
        }


class PickFilter(TextFilter):
    """A text filter with the names to choose from: the first ones as links, all in its field."""

    shown = 5
    is_open = True

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        yield from super().choices(changelist)
        chosen = self.value()
        labels = dict(self.lookup_choices)
        first = list(labels)[: self.shown]
        for name in first if chosen in (None, *first) else [str(chosen), *first]:
            yield {
                "selected": name == chosen,
                "query_string": changelist.get_query_string({self.parameter_name: name}),
                "display": labels.get(name, name),
            }

    @property
    def has_more(self) -> bool:
        """Whether there are more names than the ones that are shown as links."""
        return len(self.lookup_choices) > self.shown


class ChannelFilter(PickFilter):
    title = _("channel")
    parameter_name = "channel"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        alias = model_admin.get_queryset(request).db
        return [(name, name) for name in channels_in_use(alias)]


class TaskFilter(PickFilter):
    title = _("task")
    parameter_name = "task"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(name, name) for name in tasks_in_use(model_admin.get_queryset(request).db)]


class ErrorFilter(TextFilter):
    """The class of the last error: its import path, or the end of its path."""

    title = _("class of the last error")
    parameter_name = "error"


class FlowFilter(TextFilter):
    """The id of a flow."""

    title = _("flow: its id")
    parameter_name = "flow"
    input_type = "number"


class WaitsFilter(TextFilter):
    """The wait of a durable run: its kind, perhaps with a name, such as signal:approved."""

    title = _("wait of a durable task: sleep, signal:approved")
    parameter_name = "waits"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(kind, kind) for kind in KINDS]


class MatchFilter(PickFilter):
    """A value of the arguments, the metadata or the tags, or a part of the last error's text.

    Its names to choose from are the project's tenants, if it has some.
    """

    title = _("content: args.order_id=7, meta.tenant=a, tag=import, error=no such order")
    parameter_name = "match"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [
            (f"meta.{tenants.TENANT}={name}", gettext("Tenant %s") % name)
            for name in tenants_in_use()
        ]

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        return super().choices(changelist) if self.lookup_choices else self.all_of(changelist)

    @property
    def is_open(self) -> bool:  # type: ignore[override]
        """Whether the filter is unfolded at first."""
        return bool(self.lookup_choices)


class DayFilter(TextFilter):
    """A UTC day, like the days of history's partitions."""

    title = _("day it ended (UTC)")
    parameter_name = "day"
    input_type = "date"


class TopicFilter(TextFilter):
    title = _("topic: order.paid, order.* or order.**")
    parameter_name = "topic"


class PositionFilter(TextFilter):
    """A bound of positions."""

    input_type = "number"


class AfterFilter(PositionFilter):
    title = _("position: after")
    parameter_name = "after"


class UptoFilter(PositionFilter):
    title = _("position: up to")
    parameter_name = "upto"


def as_position(text: str) -> int:
    """Return the position that a filter names.

    Raises:
        ValidationError: the text is no position.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise ValidationError(f"{text!r} is no position.")
    return int(text)


def as_flow(text: str) -> int:
    """Return the id of a flow that a filter names.

    Raises:
        ValidationError: the text is no id.
    """
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text)):
        raise ValidationError(f"flow={text!r}: it must be the id of a flow, such as 12.")
    return int(text)


def with_flow(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chosen filters, with the id of a flow as a number.

    Raises:
        ValidationError: a text is no id, or says no wait.
    """
    given = dict(chosen)
    if "flow" in given:
        given["flow"] = as_flow(str(given["flow"]))
    if "waits" in given:
        given["waits"] = _checked(as_wait, given["waits"])
    if "match" in given:
        given["match"] = _checked(as_search, given["match"])
    return given


def _checked(parse: Callable[[str], str], text: str) -> str:
    """Return the value that a filter names.

    Raises:
        ValidationError: `parse` refuses the text.
    """
    try:
        return parse(text)
    except ValueError as error:
        raise ValidationError(str(error)) from error


def ended_on(day: str) -> Q:
    """Return the condition that finds one partition.

    Raises:
        ValidationError: the text is not a date.
    """
    try:
        begin = datetime.combine(date.fromisoformat(day), time(tzinfo=UTC))
        end = begin + timedelta(days=1)
    except (ValueError, OverflowError) as error:
        raise ValidationError(f"{day!r} is not a day.") from error
    return Q(finished_at__gte=begin, finished_at__lt=end)
