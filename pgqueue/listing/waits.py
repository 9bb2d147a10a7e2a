"""Messages that wait for a step of their durable task: for a time, a signal, an event or others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import BooleanField, F, Func, QuerySet
from django.utils.translation import gettext_lazy as _

from pgqueue.listing import index
from pgqueue.listing.index import Comparison, Listing
from pgqueue.models import Step

# Without "|| ''", the planner might walk the index of all waits for each message.
OPEN = """(SELECT count(*) FROM (
    SELECT FROM pgqueue_step s
    WHERE s.message_id = {{}} AND s.state || '' = '{state}' AND {condition} LIMIT 1) step) > 0"""
UNNUMBERED = "regexp_replace(s.name, '#[0-9]+$', '') = %s"
"""The name of a step that comes several times has a number at its end."""


def waiting_for(text: str) -> dict[str, Comparison]:
    """Return the condition of messages that wait for this. See `values.waits`."""
    kind, _, name = text.partition(":")
    state, its_kind = ("retrying", "") if kind == "retry" else ("waiting", kind)
    if not name:
        # A value is part of each comparison.
        condition, value = "s.kind LIKE %s", its_kind or "%"
    elif kind == "signal":
        condition, value = "s.kind = 'signal' AND %s = ANY (s.signals)", name
    else:
        condition, value = UNNUMBERED, f"event:{name}" if kind == "event" else name
        condition += f" AND s.kind = '{its_kind}'" if its_kind else ""
    return {"id": Comparison(OPEN.format(state=state, condition=condition), value)}


def listing(rows: QuerySet[Any], text: str, wanted: Mapping[str, Any]) -> Listing:
    """List the messages that wait for this, of those that have waited longest.

    Args:
        wanted: further values of columns.
    """
    kind, _, name = text.partition(":")
    steps = Step.objects.using(rows.db).filter(state="retrying" if kind == "retry" else "waiting")
    steps = steps.filter(kind__in=["atomic", "step"] if kind == "retry" else [kind])
    longest = steps.order_by("kind", "started_at").values("message_id")[: index.REACH + 1]
    # An array, since the planner might join all messages with a sub-select.
    return Listing(
        rows=rows.filter(_is_one_of(ArraySubquery(longest))),
        order=(),
        wording=WORDING,
        sought={**wanted, **(waiting_for(text) if name else {})},
    )


def _is_one_of(ids: ArraySubquery) -> Func:
    return Func(
        F("pk"),
        ids,
        template="%(expressions)s)",
        arg_joiner=" = ANY (",
        output_field=BooleanField(),
    )


WORDING = _("Those that have waited longest, the newest message first")
