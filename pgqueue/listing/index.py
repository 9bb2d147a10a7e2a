"""Lists of millions of rows, of which a page reads a bounded number.

A list is in the order of an index, so that its front is found at once. Pages go through it in
stretches: the ids of one stretch are read, and thereby counted, together. A condition that no index
serves is compared row by row, with a bounded number of rows for each stretch. Where there are more
rows, the page says so and links to the next stretch: nothing is counted in full, or hidden.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import OperationalError, connections, transaction
from django.db.models import BooleanField, Func, QuerySet, TextField, Value
from django.utils.translation import gettext_lazy as _
from psycopg.errors import QueryCanceled
from psycopg.sql import SQL, Composed, Identifier, Literal

from pgqueue.database.transactions import answer_within, plan_without
from pgqueue.engine import channels, search_index
from pgqueue.values.names import as_text
from pgqueue.values.readable import reading

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

STRETCH = 10_000
"""Rows of one stretch: a page shows it, and an operation handles it at once."""
REACH = 10_000
"""Rows that a stretch looks at, where no index finds the wanted ones."""
INDEX_PATIENCE = timedelta(milliseconds=150)
"""The longest time that the search index is read: for a value of too many rows it is given up."""
NOT_WHOLE = ("seqscan", "bitmapscan")
"""The planner's methods that read more rows than a LIMIT lets through."""
NOT_IN_ORDER = (*NOT_WHOLE, "sort")
"""The planner's methods that read everything instead of walking along an index."""
PLACE_LIMIT = 10_000
NO_PLACE = (ValueError, TypeError, OverflowError, RecursionError, ValidationError)
"""The errors that a text may raise which is no place in a list."""


@dataclass(frozen=True)
class Comparison:
    """A condition on a column other than equality with one value.

    Args:
        template: SQL, with {} for the column and %s for the value.
        beside: further columns that the template names.
        reach: the most rows that a stretch compares, where a comparison is dear.
        check: returns the found ids, of these rows, that are to be in the list.
        indexed: a condition that the search index serves, and its value. It holds for each row that
            the comparison finds, and may hold for others.
    """

    template: str
    value: Any
    beside: tuple[str, ...] = ()
    reach: int | None = None
    check: Callable[[QuerySet[Any], Sequence[int]], list[int]] | None = None
    indexed: tuple[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Index:
    """The order of an index, and the rows that it has.

    Args:
        where: columns and values that all its rows have.
        order: its columns, either all ascending or one descending. The last one is unique.
        wording: this order in words.
        prefix: the first columns of the index, which a filter may name.
    """

    where: Mapping[str, Any] = field(default_factory=dict)
    order: tuple[str, ...]
    wording: StrOrPromise
    prefix: tuple[str, ...] = ()

    def listing(self, rows: QuerySet[Any], wanted: Mapping[str, Any]) -> Listing:
        """List the rows whose columns equal the wanted values."""
        served = {name: wanted[name] for name in takewhile(wanted.__contains__, self.prefix)}
        sought = wanted.keys() - served.keys() - self.where.keys()
        if len(served) == len(self.prefix) > 0:
            # A range, not an equality: with all prefix columns constant, only the order of the
            # ids would be left, and the planner might walk the primary key.
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
    """Rows in the order of an index, and the conditions that the index does not serve.

    Args:
        rows: the rows that an index leads to.
        order: the order of the index. Empty: it has no order for them, so only one stretch is seen.
        wording: the order in words.
        sought: conditions by column that the index does not serve. A column must equal the value,
            or match it if it is a re.Pattern, or satisfy it if it is a Comparison.
        reach: rows that a stretch compares with `sought`. None: `REACH`.
    """

    rows: QuerySet[Any]
    order: tuple[str, ...]
    wording: StrOrPromise
    sought: Mapping[str, Any] = field(default_factory=dict)
    reach: int | None = None

    def stretch(self, start: str | None = None) -> ListStretch:
        """Return the first stretch, or the one that begins at `start`.

        Raises:
            ValidationError: `start` is no place in this list.
        """
        if not self.order:
            with without(self.rows.db, *NOT_WHOLE):
                return self._without_order()
        if self.candidates is not None:
            with without(self.rows.db, "seqscan"):
                return self._of_candidates(self.candidates, start)
        with without(self.rows.db, *NOT_IN_ORDER):
            return self._in_order(start)

    def stretches(self) -> Iterator[ListStretch]:
        """Yield all stretches of the list, each read when the one before was taken."""
        stretch = self.stretch()
        yield stretch
        while stretch.next:
            stretch = self.stretch(stretch.next)
            yield stretch

    def _without_order(self) -> ListStretch:
        if not self.sought:
            ids = sorted(_ids(self.rows)[: STRETCH + 1], reverse=True)
            return ListStretch(ids[:STRETCH], is_all=len(ids) <= STRETCH)
        ids, reach = self._find_sought(self.rows), self.looks_at
        has_more = _ids(self.rows)[reach : reach + 1].exists()
        is_cut = len(ids) > STRETCH
        return ListStretch(ids[:STRETCH], is_all=not (has_more or is_cut), is_cut=is_cut)

    @cached_property
    def candidates(self) -> list[int] | None:
        """The ids among which the search index has all wanted rows, in the order of this list.

        None: no index serves these conditions, or it has too many rows for them. A stretch compares
        row by row then, and soon finds a value that so many rows have.
        """
        table = self.rows.model._meta
        served = [each.indexed for each in self._comparisons if each.indexed]
        if self._columns != [table.pk.name] or not served:
            return None
        connection = connections[self.rows.db]
        if not search_index.is_valid(connection, table.db_table):
            return None
        [(template, value), *_] = served
        statement = SQL("SELECT {} FROM {} WHERE {} LIMIT {}").format(
            Identifier(table.pk.column),
            Identifier(table.db_table),
            SQL(template),
            Literal(STRETCH + 1),
        )
        try:
            with _by_search_index(self.rows.db), connection.cursor() as cursor:
                cursor.execute(statement, [value])
                ids = [id for (id,) in cursor.fetchall()]
        except OperationalError as error:
            if not isinstance(error.__cause__, QueryCanceled):
                raise
            return None
        return None if len(ids) > STRETCH else sorted(ids, reverse=self._is_descending)

    def _of_candidates(self, ids: Sequence[int], start: str | None) -> ListStretch:
        if start:
            [first] = self._place(start)
            is_from = first.__ge__ if self._is_descending else first.__le__
            ids = [id for id in ids if is_from(id)]
        here, after = ids[: self.looks_at], ids[self.looks_at :]
        # Without an order, the planner can read these rows only by their ids.
        found = self._find_sought(self.rows.filter(pk__in=here).order_by()) if here else []
        return ListStretch(found, is_all=not after, next=_as_place((after[0],)) if after else None)

    @property
    def looks_at(self) -> int:
        """How many rows a stretch compares with `sought`."""
        own = REACH if self.reach is None else self.reach
        return min([own, *(each.reach for each in self._comparisons if each.reach is not None)])

    def looked_back_to(self, stretch: ListStretch) -> datetime | None:
        """Return when the first message that a stretch did not reach was enqueued.

        None: the stretch reached the end, or the list is not in the order of the messages' ids.
        """
        if not stretch.next or self.order != ("-id",):
            return None
        rows = type(self.rows)(self.rows.model, using=self.rows.db)
        [id] = json.loads(stretch.next)
        return rows.filter(pk=id).values_list("created_at", flat=True).first()

    @property
    def _comparisons(self) -> list[Comparison]:
        return [each for each in self.sought.values() if isinstance(each, Comparison)]

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
        """Return the start of the stretch that begins with this row; None: the row was deleted."""
        # The id is the only condition. With more, the planner might choose another index.
        row = type(self.rows)(self.rows.model, using=self.rows.db).filter(pk=id)
        return _as_place(row.values_list(*self._columns).first())

    @property
    def _columns(self) -> list[str]:
        return [name.removeprefix("-") for name in self.order]

    @property
    def _is_descending(self) -> bool:
        return not self.order or self.order[0].startswith("-")

    def _find_sought(self, rows: QuerySet[Any]) -> list[int]:
        # The inner LIMIT bounds the rows that are read, however wrong the planner's estimates are.
        alias = rows.db
        pk = self.rows.model._meta.pk.name
        beside = [name for each in self._comparisons for name in each.beside]
        looked_at = rows.values_list(*dict.fromkeys([pk, *self._columns, *self.sought, *beside]))[
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
            ids = [id for (id,) in cursor.fetchall()]
        for each in self._comparisons:
            ids = each.check(rows, ids) if each.check and ids else ids
        return ids

    def _is_from(self, start: str) -> Func:
        """Return a comparison of whole rows with `start`: an index finds this place at once."""
        place = zip(self._place(start), self._kinds, strict=True)
        return Func(
            _Row(*self._columns),
            _Row(*(Value(value, output_field=kind) for value, kind in place)),
            template="%(expressions)s",
            arg_joiner=" <= " if self._is_descending else " >= ",
            output_field=BooleanField(),
        )

    def _place(self, start: str) -> list[Any]:
        """Return the values of the columns at which a stretch begins.

        Raises:
            ValidationError: it is no place in this list.
        """
        try:
            return [
                kind.clean(_storable(value), None)
                for kind, value in zip(self._kinds, json.loads(start), strict=True)
            ]
        except NO_PLACE as error:
            raise ValidationError(f"{start!r} is no place in this list.") from error

    @property
    def _kinds(self) -> list[Any]:
        fields = [self.rows.model._meta.get_field(name) for name in self._columns]
        return [getattr(each, "output_field", each) for each in fields]


@dataclass(frozen=True)
class ListStretch:
    """A part of a list.

    Args:
        ids: the ids of its rows, in order.
        is_all: whether no row comes after it.
        is_cut: whether more rows were found than a stretch holds.
        next: the start of the following stretch.
    """

    ids: list[int]
    is_all: bool = True
    is_cut: bool = False
    next: str | None = None

    def __add__(self, following: ListStretch) -> ListStretch:
        return replace(following, ids=self.ids + following.ids)


@contextmanager
def without(alias: str, *methods: str) -> Iterator[None]:
    """Keep the planner from these methods: after a wrong estimate it would read everything."""
    with transaction.atomic(using=alias):
        with connections[alias].cursor() as cursor:
            plan_without(cursor, *methods)
        yield
        # Nothing was written. The rollback gives the caller's transaction its settings back.
        transaction.set_rollback(True, using=alias)


@contextmanager
def _by_search_index(alias: str) -> Iterator[None]:
    """Have the planner use the search index, for a bounded time."""
    with without(alias, "seqscan"):
        patience = f"{INDEX_PATIENCE / timedelta(milliseconds=1):.0f}ms"
        with connections[alias].cursor() as cursor:
            answer_within(cursor, patience)
        yield


def channels_in_use(alias: str) -> list[str]:
    """Return the channels that are configured or have a message, in the order of their names."""
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
    """Return PostgreSQL's estimate of the number of rows, which reads none of them."""
    plan = json.loads(rows.order_by().explain(format="json"))
    return int(plan[0]["Plan"]["Plan Rows"])
