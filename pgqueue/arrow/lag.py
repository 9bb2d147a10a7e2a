"""How far streams are behind the database, by the offsets that they have reached."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import psycopg

from pgqueue.arrow import eventstream, streaming
from pgqueue.arrow.urls import connect
from pgqueue.database.transactions import answer_within
from pgqueue.engine import exports, identity
from pgqueue.engine.exports import COUNTED

PATIENCE = 3
"""Seconds within which the database must be connected, and each of its answers must come."""
EVENTS, HISTORY = "events", "history"

Offset: TypeAlias = streaming.Offset | eventstream.Offset


class StreamLag(NamedTuple):
    """The number of rows after an offset, and the seconds for which the first one has waited.

    Rows that the stream does not select count, too. Of history, at most `COUNTED` rows count.
    """

    rows: int
    seconds: float


def offset_of(text: str) -> Offset | None:
    """Return the offset that a progress of Spark names; None: its source is another format."""
    try:
        given = json.loads(text)
    except ValueError:
        return None
    if not isinstance(given, dict) or "database" not in given:
        return None
    if "position" in given:
        return eventstream.Offset.from_json(given)
    return streaming.Offset.from_json(given) if {"txid", "id"} <= given.keys() else None


def place_of(offset: Offset) -> tuple[str, int]:
    """Return the log of an offset and its place: a position, or the number of a transaction."""
    if isinstance(offset, eventstream.Offset):
        return EVENTS, offset.last
    return HISTORY, offset.last.txid


def lags(url: str, offsets: Sequence[Offset]) -> list[StreamLag | None]:
    """Return the lag after each offset; None: it belongs to another database.

    Args:
        url: see `urls.resolve`.

    Raises:
        InvalidOption: the URL is missing or invalid.
        psycopg.Error: the database is unreachable, or did not answer within `PATIENCE`.
    """
    with connect(url, name="lag", patience=PATIENCE) as connection, connection.transaction():
        answer_within(connection, f"{PATIENCE}s")
        ours = identity.of(connection)
        return [_lag(connection, each) if each.database == ours else None for each in offsets]


def _lag(connection: psycopg.Connection[Any], offset: Offset) -> StreamLag:
    if isinstance(offset, eventstream.Offset):
        return StreamLag(*exports.events_behind(connection, offset.last))
    behind = exports.behind(connection, offset.last)
    return StreamLag(min(behind.messages, COUNTED), behind.seconds)
