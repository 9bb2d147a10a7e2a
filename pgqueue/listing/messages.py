"""The listings of messages: their indexes, and their orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Left
from django.utils.translation import gettext_lazy as _

from pgqueue.engine.values import exact
from pgqueue.listing import index
from pgqueue.listing.index import NEWEST_FIRST, Comparison, Index, Listing, channels_in_use
from pgqueue.models import History, Message
from pgqueue.models.message import LIVE
from pgqueue.states import State

FLOW_REACH = 100_000
"""Ended messages of a flow that a list looks at: no index has them in an order."""
ERROR_TEXT = 200
"""Characters of an error that a list shows."""
FREE = {"state": State.READY, "governed": False}
LANE = ("channel", "key")

INDEXES: dict[str, Index] = {
    State.READY: Index(
        where=FREE,
        order=(*LANE, "rank", "run_at", "id"),
        wording=_("By channel and key, the next to be run first"),
        prefix=LANE,
    ),
    State.RUNNING: Index(
        where={"state": State.RUNNING},
        order=(*LANE, "id"),
        wording=_("By channel and key"),
        prefix=LANE,
    ),
    State.DEAD: Index(
        where={"state": State.DEAD},
        order=(*LANE, "id"),
        wording=_("By channel and key, the oldest first"),
        prefix=LANE,
    ),
    State.SCHEDULED: Index(
        where={"state": State.SCHEDULED},
        order=("run_at", "id"),
        wording=_("The next to be due first"),
    ),
}


GOVERNED = Index(
    where={"state": State.READY, "governed": True, "ordered": False},
    order=(*LANE, "rank", "run_at", "id"),
    wording=_("By channel and key, the next to be run first"),
    prefix=LANE,
)
ORDERED = Index(
    where={"ordered": True, "state__in": LIVE},
    order=(*LANE, "id"),
    wording=_("By channel and key, the oldest first"),
    prefix=LANE,
)
"""Messages of ordered lanes, in every state."""


OLDEST_FIRST = Index(order=("id",), wording=_("The oldest first"))
"""Ended messages, for a walk that enqueues some of them again: new messages have larger ids."""


def enqueued_before(age: timedelta) -> dict[str, Comparison]:
    """Return the condition of messages that were enqueued longer ago than `age`."""
    return {"created_at": Comparison("{} < statement_timestamp() - %s::interval", exact(age))}


def failed_with(name: str) -> dict[str, Comparison]:
    """Return the condition of messages whose last error is of a class.

    Args:
        name: the import path of the class, or the path's end: ForkliftStuck.
    """
    # The path is compared from its end, so that the value is needed only once.
    last = "reverse('.' || ({} -> -1 ->> 'class'))"
    return {"errors": Comparison(f"starts_with({last}, reverse('.' || %s))", name)}


def last_error() -> dict[str, Any]:
    """Return annotations: the class of the last error, and the beginning of its text."""
    last = KeyTransform(-1, "errors")
    return {
        "error_class": KeyTextTransform("class", last),
        "error_text": Left(KeyTextTransform("message", last), ERROR_TEXT),
    }


def of_key(rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing:
    """List the messages of a key in every channel: each index with a key begins with a channel."""
    known = Q(**FREE) | Q(state=State.RUNNING) | Q(state=State.DEAD)
    return Listing(
        rows=rows.filter(known, channel__in=channels_in_use(rows.db), **wanted),
        order=(),
        wording=_(
            "Ready, running and dead ones with this key; to look through others, choose their state"
        ),
    )


def newest_first(rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing:
    """List live messages in the order of their ids; a flow's messages have their own index."""
    rest = dict(wanted)
    flow_id = rest.pop("flow_id", None)
    return NEWEST_FIRST.listing(rows if flow_id is None else rows.filter(flow_id=flow_id), rest)


def by_contents(rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing | None:
    """List messages whose contents the search index finds; None: it does not find them."""
    listing = NEWEST_FIRST.listing(rows, wanted)
    return None if listing.candidates is None else listing


def ended_of_flow(rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing:
    """List messages of a flow that have ended."""
    rest = dict(wanted)
    return Listing(
        rows=rows.filter(flow_id=rest.pop("flow_id")),
        order=(),
        wording=_("Those of the flow, the newest first"),
        sought=rest,
        reach=FLOW_REACH,
    )


def everything(rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Iterator[Listing]:
    """Yield lists that together have each wanted live message once."""
    state = wanted.get("state", "")
    if "flow_id" in wanted:
        yield newest_first(rows, wanted)
        return
    if (found := by_contents(rows, wanted)) is not None:
        yield found
        return
    yield INDEXES.get(state, NEWEST_FIRST).listing(rows, wanted)
    if state != State.READY:
        return
    # Three indexes have ready messages; the list above was by one of them.
    yield GOVERNED.listing(rows, wanted)
    yield ORDERED.listing(rows, {**wanted, "governed": True})


def children(alias: str, id: int) -> list[int]:
    """Return the ids of messages that a message has enqueued, live or ended.

    No index has parents. So only the next `REACH` ids after the parent's are looked at.
    """
    found: set[int] = set()
    nearby = {"pk__gt": id, "pk__lte": id + index.REACH}
    for model in (Message, History):
        rows = model._default_manager.using(alias).filter(**nearby).order_by("pk")
        with index.without(alias, "seqscan"):
            pairs = rows.values_list("pk", "parent_id")[: index.REACH]
            found.update(pk for pk, parent in pairs if parent == id)
    return sorted(found)


def copies(alias: str, id: int) -> list[int]:
    """Return the ids of a message's reruns and forks, live or ended.

    No index has what a message is a copy of. So only the next `REACH` ids after the message's, and
    the newest `REACH` messages of each table, are looked at.
    """
    found: set[int] = set()
    copied = {name: KeyTransform(name, "metadata") for name in ("rerun_of", "forked_from")}
    for model in (Message, History):
        rows = model._default_manager.using(alias).filter(pk__gt=id).annotate(**copied)
        nearby = rows.filter(pk__lte=id + index.REACH).order_by("pk")
        for looked_at in (nearby, rows.filter(pk__gt=id + index.REACH).order_by("-pk")):
            with index.without(alias, *index.NOT_IN_ORDER):
                read = looked_at.values_list("pk", *copied)[: index.REACH]
                found.update(pk for pk, *originals in read if id in originals)
    return sorted(found)
