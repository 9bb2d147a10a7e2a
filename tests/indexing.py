"""Have the search index in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections
from django.db.migrations.state import ProjectState

from pgqueue.operations import IndexSearch


def change_search_index(*, forwards: bool, atomic: bool = True) -> None:
    """Apply IndexSearch, or reverse it."""
    operation, state = IndexSearch(), ProjectState()
    with connections["default"].schema_editor(atomic=atomic) as editor:
        change = operation.database_forwards if forwards else operation.database_backwards
        change("shop", editor, state, state)


@contextmanager
def indexed_for_search() -> Iterator[None]:
    """Have the index of IndexSearch on live messages and on the history."""
    change_search_index(forwards=True)
    try:
        yield
    finally:
        change_search_index(forwards=False)
