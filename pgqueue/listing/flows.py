"""The listings of flows: their indexes, and their orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext_lazy as _

from pgqueue.listing.index import NEWEST_FIRST, Comparison, Index, Listing

LIVING, ENDED = "living", "ended"
OLDEST_FIRST = Index(
    where={"ended_at": None},
    order=("created_at", "id"),
    wording=_("The oldest first"),
)
HAS_ENDED = {"ended_at": Comparison("({} IS NOT NULL) = %s", True)}


def by_state(rows: QuerySet[Any], wanted: Mapping[str, Any], state: str | None) -> Listing:
    """List the flows that have not ended, the ended ones, or all."""
    if state == LIVING:
        return OLDEST_FIRST.listing(rows, wanted)
    return NEWEST_FIRST.listing(rows, {**wanted, **(HAS_ENDED if state == ENDED else {})})
