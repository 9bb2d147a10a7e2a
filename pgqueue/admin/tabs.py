"""The tabs above a list: one for each state or outcome, with the number of its messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext as _

from pgqueue.admin.filters import state_label
from pgqueue.admin.links import page_url
from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.engine import channels, live_counts
from pgqueue.engine.live_counts import StateCounts
from pgqueue.models import History, Message
from pgqueue.operating.bulk import GOVERNED
from pgqueue.states import Outcome, State
from pgqueue.templatetags.pgqueue_admin import grouped

COUNTED = {
    State.HELD: "held",
    State.SCHEDULED: "scheduled",
    State.READY: "free",
    GOVERNED: "governed",
    State.RUNNING: "running",
    State.DEAD: "dead",
}
"""The tabs of states in their order, and the attribute of `StateCounts` with the number."""

EVERY = frozenset(COUNTED.values())


@dataclass(frozen=True)
class ListTab:
    """A tab of a list.

    Attributes:
        state: the state or the outcome; "": all of them.
        count: the number as text; "": it is not counted.
    """

    label: str
    url: str
    state: str = ""
    count: str = ""
    is_selected: bool = False


def of_messages(request: HttpRequest, shown: Any) -> list[ListTab]:
    """Return the tabs of the list of live messages, and one that leads to the history.

    Args:
        shown: the `BoundedChangeList`.
    """
    selected, counts = request.GET.get("state", ""), _counts(shown)
    tabs = [_all(shown, "state", _("All"), selected)]
    for state, name in COUNTED.items():
        number = getattr(counts, name) if counts else None
        if state == GOVERNED and not number and selected != GOVERNED:
            continue
        more = "+" if counts and name in counts.beyond else ""
        tabs.append(
            ListTab(
                label=state_label(state),
                url=shown.get_query_string({"state": state}),
                state=State.READY if state == GOVERNED else state,
                count="" if number is None else f"{grouped(number)}{more}",
                is_selected=selected == state,
            )
        )
    return [*tabs, *_other(request, shown, History, _("Ended ones"))]


def of_history(request: HttpRequest, shown: Any) -> list[ListTab]:
    """Return the tabs of the history, and one that leads to the live messages."""
    selected = request.GET.get("outcome", "")
    tabs = [
        ListTab(
            label=str(outcome.label),
            url=shown.get_query_string({"outcome": outcome}),
            state=outcome,
            is_selected=selected == outcome,
        )
        for outcome in Outcome
    ]
    ended = _all(shown, "outcome", _("All that have ended"), selected)
    return [*_other(request, shown, Message, _("Live ones")), ended, *tabs]


def _all(shown: Any, parameter: str, label: str, selected: str) -> ListTab:
    url = shown.get_query_string(remove=[parameter])
    return ListTab(label=label, url=url, is_selected=not selected)


def _other(request: HttpRequest, shown: Any, model: type[Model], label: str) -> Iterator[ListTab]:
    """Yield the tab of the other list, if the user may see it, with the filters of both."""
    name = model._meta.model_name
    if request.user.has_perm(f"pgqueue.view_{name}"):
        of_both = shown.model_admin.admin_site.get_model_admin(model).filter_parameters(request)
        query = {"q": shown.query} if shown.query else {}
        query |= {each: value for each, value in shown.chosen.items() if each in of_both}
        yield ListTab(label=label, url=page_url(f"{name}_changelist", **query))


def _counts(shown: Any) -> StateCounts | None:
    """Return the counts; None: no index counts what the list is narrowed by."""
    if shown.query or shown.chosen.keys() - {"state", "channel"}:
        return None
    with borrow(settings().database) as connection:
        channel = shown.chosen.get("channel")
        names = [channel] if channel else channels.in_use(connection)
        counts = live_counts.by_state(connection, names)
    # There may be more channels than are looked up.
    return counts if len(names) < channels.LIMIT else counts._replace(beyond=EVERY)
