"""Lists of millions of rows, of which a page reads a bounded number.

A list is in the order of an index, so that its front is found at once. It is paged through
in stretches: the ids of one are read together, which counts them, too. What no index serves
is compared row by row, with as many rows as a stretch may look at. Where there are more, the
page says so and leads on from there: nothing is counted in full, and nothing is hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import connections, transaction
from django.db.models import BooleanField, Func, QuerySet, TextField, Value
from django.utils.translation import gettext_lazy as _
from psycopg.sql import SQL, Composed, Identifier, Literal

from pgqueue.engine import channels
from pgqueue.values.names import as_text
from pgqueue.values.readable import reading

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

STRETCH = 10_000
"""Rows that can be paged through at once, or operated on."""
REACH = 10_000
"""Rows that a stretch looks at, where no index finds the ones that are sought."""
NOT_WHOLE = ("seqscan", "bitmapscan")
"""How the planner would read more than a LIMIT lets through."""
NOT_IN_ORDER = (*NOT_WHOLE, "sort")
"""How the planner would read everything, rather than walk along an index."""
PLACE_LIMIT = 10_000
NO_PLACE = (ValueError, TypeError, OverflowError, RecursionError, ValidationError)
"""What a text may raise that is no place in a list."""


@dataclass(frozen=True)
class Comparison:
    """What a column has to be, where that is not one value.

    Args:
        template: SQL, with {} for the column and %s for the value.
    """

    template: str
    value: Any


@dataclass(frozen=True, kw_only=True)
class Index:
    """What an index has in its order.

    Args:
        where: what its rows equal.
        order: its columns, either all ascending or one descending, the last one unique.
        wording: that order, in words.
        prefix: the columns it begins with that may be asked for.
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[str, ...]
    wording: StrOrPromise
    prefix: tuple[str, ...] = ()

    def listing(self, rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing:
        """List the rows whose columns equal what is wanted."""
        served = {name: wanted[name] for name in takewhile(wanted.__contains__, self.prefix)}
        sought = wanted.keys() - served.keys() - self.where.keys()
        if len(served) == len(self.prefix) > 0:
            # As a range: by constants, this order would come down to that of the ids, and
            # the planner might walk the primary key for it.
            last = served.pop(self.prefix[-1])
            served[f"{self.prefix[-1]}__range"] = (last, last)
        return Listing(
            rows=rows.filter(**self.where, **served),
            order=self.order,
            wording=self.wording,
            sought={name: wanted[name] for name in sought},
        )


NEWEST_FIRST = Index(order=("-id",), wording=_("The newest first"))


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What is listed.

    Args:
        rows: those that an index leads to.
        order: that of the index. Empty where it has none for them: only one stretch is seen.
        wording: the order in words.
        sought: what columns must equal that it does not serve; or match, if it is a re.Pattern; or
            how else they compare, if it is a Comparison.
        reach: rows that a stretch looks at for these. None: `REACH`.
    """

    rows: QuerySet[Any]
    order: tuple[str, ...]
    wording: StrOrPromise
    sought: Mapping[str, Any] = field(default_factory=dict)
    reach: int | None = None

    def stretch(self, start: str | None = None) -> ListStretch:
        """Return what comes first, or first from `start` on.

        Raises:
            ValidationError: `start` is no place in this list.
        """
        if not self.order:
            with without(self.rows.db, *NOT_WHOLE):
                return self._without_order()
        with without(self.rows.db, *NOT_IN_ORDER):
            return self._in_order(start)

    def _without_order(self) -> ListStretch:
        if not self.sought:
            ids = sorted(_ids(self.rows)[: STRETCH + 1], reverse=True)
            return ListStretch(ids[:STRETCH], is_all=len(ids) <= STRETCH)
        ids, reach = self._find_sought(self.rows), self.looks_at
        has_more = _ids(self.rows)[reach : reach + 1].exists()
        is_cut = len(ids) > STRETCH
        return ListStretch(ids[:STRETCH], is_all=not (has_more or is_cut), is_cut=is_cut)

    @property
    def looks_at(self) -> int:
        """How many rows a stretch looks at, for what is sought."""
        return REACH if self.reach is None else self.reach

    def _in_order(self, start: str | None) -> ListStretch:
        rows = self.rows.order_by(*self.order)
        if start:
            rows = rows.filter(self._is_from(start))
        ids = self._find_sought(rows) if self.sought else list(_ids(rows)[: STRETCH + 1])
        is_cut = len(ids) > STRETCH
        if is_cut:
            place = self.place(ids[STRETCH])
        elif self.sought:
            reach = self.looks_at
            with reading(connections[rows.db]):
                place = _as_place(rows[reach : reach + 1].values_list(*self._columns).first())
        else:
            return ListStretch(ids)
        return ListStretch(
            ids[:STRETCH], is_all=place is None and not is_cut, is_cut=is_cut, next=place
        )

    def place(self, id: int) -> str | None:
        """Return where a stretch starts that begins with this row; None: it is gone."""
        # By nothing but its id, or the planner might look for it through an index of the rest.
        row = type(self.rows)(self.rows.model, using=self.rows.db).filter(pk=id)
        return _as_place(row.values_list(*self._columns).first())

    @property
    def _columns(self) -> list[str]:
        return [name.removeprefix("-") for name in self.order]

    @property
    def _is_descending(self) -> bool:
        return not self.order or self.order[0].startswith("-")

    def _find_sought(self, rows: QuerySet[Any]) -> list[int]:
        # Whatever is estimated, no more rows are looked at than the inner LIMIT lets through.
        alias = rows.db
        pk = self.rows.model._meta.pk.name
        looked_at = rows.values_list(*dict.fromkeys([pk, *self._columns, *self.sought]))[
            : self.looks_at
        ]
        inner, parameters = looked_at.query.get_compiler(using=alias).as_sql()
        way = SQL(" DESC" if self._is_descending else "")
        statement = SQL("SELECT {} FROM ({}) AS looked_at WHERE {} ORDER BY {} LIMIT {}").format(
            Identifier(pk),
            SQL(inner),
            SQL(" AND ").join(_condition(name, value) for name, value in self.sought.items()),
            SQL(", ").join(Identifier(name) + way for name in self._columns or [pk]),
            Literal(STRETCH + 1),
        )
        with connections[alias].cursor() as cursor:
            cursor.execute(statement, [*parameters, *map(_parameter, self.sought.values())])
            return [id for (id,) in cursor.fetchall()]

    def _is_from(self, start: str) -> Func:
        """Compare whole rows: an index finds that place at once."""
        fields = [self.rows.model._meta.get_field(name) for name in self._columns]
        kinds: list[Any] = [getattr(each, "output_field", each) for each in fields]
        try:
            place = [
                Value(kind.clean(_storable(value), None), output_field=kind)
                for kind, value in zip(kinds, json.loads(start), strict=True)
            ]
        except NO_PLACE as error:
            raise ValidationError(f"{start!r} is no place in this list.") from error
        return Func(
            _Row(*self._columns),
            _Row(*place),
            template="%(expressions)s",
            arg_joiner=" <= " if self._is_descending else " >= ",
            output_field=BooleanField(),
        )


@dataclass(frozen=True)
class ListStretch:
    """A part of a list.

    Args:
        ids: of its rows, in order.
        is_all: whether nothing comes after it.
        is_cut: whether more were found than it takes.
        next: where the following one starts.
    """

    ids: list[int]
    is_all: bool = True
    is_cut: bool = False
    next: str | None = None

    def __add__(self, following: ListStretch) -> ListStretch:
        return replace(following, ids=self.ids + following.ids)


@contextmanager
def without(alias: str, *methods: str) -> Iterator[None]:
    """Keep the planner from methods that read everything: a wrong estimate would choose them."""
    with transaction.atomic(using=alias):
        with connections[alias].cursor() as cursor:
            for method in methods:
                cursor.execute("SELECT set_config(%s, 'off', true)", [f"enable_{method}"])
        yield
        # Nothing was written; a transaction of the caller's gets its settings back.
        transaction.set_rollback(True, using=alias)


def channels_in_use(alias: str) -> list[str]:
    """Return the channels that are configured or have a message, the first by name."""
    with without(alias, *NOT_IN_ORDER):
        return channels.in_use(connections[alias])


class _Row(Func):
    template = "ROW(%(expressions)s)"
    output_field = TextField()


def _storable(value: Any) -> Any:
    return as_text(value, PLACE_LIMIT) if isinstance(value, str) else value


def _as_place(row: tuple[Any, ...] | None) -> str | None:
    return None if row is None else json.dumps(row, default=str)


def _condition(name: str, value: Any) -> Composed:
    template = "{} = %s"
    if isinstance(value, Comparison):
        template = value.template
    elif isinstance(value, re.Pattern):
        template = "{} ~ %s"
    return SQL(template).format(Identifier(name))


def _parameter(value: Any) -> Any:
    if isinstance(value, Comparison):
        return value.value
    return value.pattern if isinstance(value, re.Pattern) else value


def _ids(rows: QuerySet[Any]) -> QuerySet[Any, int]:
    return rows.values_list("pk", flat=True)


def estimated_count(rows: QuerySet[Any]) -> int:
    """Return how many rows PostgreSQL expects, without looking at any."""
    plan = json.loads(rows.order_by().explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"])
