"""The actor and the reason of a change, in the metadata of events.

Events that Python publishes take the actor from the context. Events that a trigger publishes take
it from the transaction. Before a statement writes, the setting `pgqueue.acting` is set there. It is
set once per transaction, and again only if the context changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.db import router, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from pgqueue.database import guard
from pgqueue.exceptions import InvalidEvent, InvalidMessage, InvalidTask
from pgqueue.tasks.options import checked_message
from pgqueue.values.error_words import shown

User = Any  # a user of Django's, a text, a number, a function that returns one, or None

_said: ContextVar[tuple[Mapping[str, Any], ...]] = ContextVar("acting", default=())

NOBODY = "{}"
SESSION_USER = "session_user"
"""The field of an actor with the producer's PostgreSQL role, which has named the actor."""
_SET = "SELECT set_config('pgqueue.acting', %s, true)"
_BEFORE = r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*"
_WRITES = re.compile(
    rf"{_BEFORE}(?:insert|update|delete|merge|copy|truncate|execute|call|do"
    r"|with\b.*?\b(?:insert|update|delete|merge))\b",
    re.DOTALL | re.IGNORECASE,
)
_ROLLS_BACK = re.compile(rf"{_BEFORE}rollback\b", re.IGNORECASE)
_MAY_COMMIT = re.compile(rf"{_BEFORE}(?:call|do)\b", re.DOTALL | re.IGNORECASE)


class acting_as:
    """Set the actor and the reason for events of a block, as their metadata["acting"].

        with acting_as(user=request.user, reason="refund"):
            order.delete()

    This also applies to events of the triggers of `TrackTable`, if Django's connection writes. It
    applies to this thread or coroutine, and to the functions that it calls. An inner block adds to
    the fields of the outer block, or replaces them.

    Args:
        user: a user of Django's, of which the id and the name are stored; or a text or a number. Or
            a function that returns a user; it is called for each event that needs it.
        reason: any text.
        more: further fields, as JSON values.

    Raises:
        InvalidEvent: the user is no user, or another field is not storable.
    """

    def __init__(self, user: User = None, *, reason: str | None = None, **more: Any) -> None:
        given = {**more, "reason": reason}
        said = {name: value for name, value in given.items() if value is not None}
        try:
            checked = dict(checked_message({"metadata": said})["metadata"])
        except (InvalidMessage, InvalidTask) as error:
            raise InvalidEvent(str(error)) from error
        if user is not None:
            checked["user"] = user if callable(user) else _shown(user)
        self._own = checked
        self._outer: list[tuple[Mapping[str, Any], ...]] = []

    def __enter__(self) -> None:
        outer = _said.get()
        self._outer.append(outer)
        _said.set((*outer, self._own))

    def __exit__(self, *_: object) -> None:
        _said.set(self._outer.pop())


def acting() -> Mapping[str, Any]:
    """Return the current actor and reason; {}: none is set.

    Raises:
        InvalidEvent: a function did not return a user.
    """
    said = _said.get()
    if not said:
        return {}
    # No actor is set during the call: loading a user must not call this again.
    _said.set(())
    try:
        parts = [
            {**each, "user": _shown(guard.call(each["user"]))}
            if callable(each.get("user"))
            else each
            for each in said
        ]
    finally:
        _said.set(said)
    return {k: value for part in parts for k, value in part.items() if value is not None}


def said_by(role: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event's metadata with the role that has named the actor."""
    if "acting" not in metadata:
        return dict(metadata)
    said = metadata["acting"]
    who = said if isinstance(said, dict) else {} if said is None else {"user": said}
    return {**metadata, "acting": {**who, SESSION_USER: role}}


def _shown(user: Any) -> Any:
    if user is None or getattr(user, "is_anonymous", False) is True:
        return None
    if isinstance(user, int | str):
        return user
    if not hasattr(user, "get_username"):
        raise InvalidEvent(f"user={shown(user)}: it must be a user, text or a number.")
    id = user.pk
    return {"id": id if isinstance(id, int | None) else str(id), "name": user.get_username()}


class ActingMiddleware:
    """Make the user of each request its actor. Put it behind Django's authentication."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Any]) -> None:
        self._get_response = get_response
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer a request."""
        if self._is_async:
            return self._answer(request)
        with acting_as(user=lambda: getattr(request, "user", None)):
            response: HttpResponseBase = self._get_response(request)
            return response

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        with acting_as(user=lambda: getattr(request, "user", None)):
            response: HttpResponseBase = await self._get_response(request)
            return response


# --- The actor in transactions, for triggers


def tell_triggers(connection: Any, **_: Any) -> None:
    """Make a new connection set the actor before writes, if its database may have pgqueue's tables.

    A receiver of Django's `connection_created`.
    """
    wrappers = connection.execute_wrappers
    if connection.vendor != "postgresql" or any(isinstance(each, _Teller) for each in wrappers):
        return
    if router.allow_migrate(connection.alias, "pgqueue"):
        # At the front: Django removes temporary wrappers from the end.
        wrappers.insert(0, _Teller(connection))


class _Told:
    """A hook in Django's `run_on_commit` that lives as long as the setting.

    A rollback of the block in which the setting was made removes both. After a rollback to another
    savepoint the setting is unknown: its text is None.
    """

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __call__(self) -> None:
        """Do nothing: the transaction is over, and so is the setting."""


class _Teller:
    """Sets the actor before a statement of a connection writes."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._has_told = False
        self._place = 0  # the index of the last mark

    def __call__(
        self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any
    ) -> Any:
        """Run a statement, as one of Django's execute wrappers."""
        if not (_said.get() or self._has_told):
            return execute(sql, params, many, context)
        text = _text(self._connection, sql)
        if _matches(_WRITES, text):
            who = acting()
            if not self._connection.in_atomic_block and self._connection.get_autocommit():
                # A procedure that commits must not run in a transaction that is opened here.
                if who and not _MAY_COMMIT.match(text):
                    with transaction.atomic(using=self._connection.alias):
                        self._tell(who)
                        return execute(sql, params, many, context)
            else:
                self._tell(who)
        if _matches(_ROLLS_BACK, text):
            self._doubt()
        return execute(sql, params, many, context)

    def _tell(self, who: Mapping[str, Any]) -> None:
        connection = self._connection
        said = json.dumps(who) if who else NOBODY
        if connection.in_atomic_block:
            if said == self._told():
                return
            self._set(said)
            self._mark(said)
        elif who or self._has_told:
            # Django notices neither the end of such a transaction nor a rollback in it.
            self._set(said)
            self._has_told = True

    def _doubt(self) -> None:
        """Note that a rollback to a savepoint may restore an earlier setting.

        Django removes the mark only for savepoints of its own blocks.
        """
        if self._connection.in_atomic_block:
            self._told()  # it finds the last mark
            if self._has_told:
                self._mark(None)

    def _mark(self, said: str | None) -> None:
        # Not by `on_commit`, which refuses after Django has seen an error.
        waiting, savepoints = self._connection.run_on_commit, set(self._connection.savepoint_ids)
        mark = (savepoints, _Told(said), True)
        last = waiting[self._place] if self._has_told and self._place < len(waiting) else None
        if last and isinstance(last[1], _Told) and last[0] == savepoints:
            waiting[self._place] = mark
            return
        waiting.append(mark)
        self._place = len(waiting) - 1
        self._has_told = True

    def _told(self) -> str | None:
        """Return the current setting of the transaction; None: it is unknown."""
        if self._has_told:
            waiting = self._connection.run_on_commit
            # Other hooks may follow the last mark, up to thousands.
            for place in (self._place, *range(len(waiting) - 1, -1, -1)):
                if place < len(waiting) and isinstance(mark := waiting[place][1], _Told):
                    self._place = place
                    return mark.text
            if not self._connection.commit_on_exit:
                return None  # the transaction began before the block
            self._has_told = False
        return NOBODY

    def _set(self, said: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(_SET, [said])


def _matches(pattern: re.Pattern[str], text: str) -> bool:
    if pattern.match(text):
        return True
    return ";" in text and any(map(pattern.match, text.split(";")))


def _text(connection: Any, sql: Any) -> str:
    if hasattr(sql, "as_string"):
        return str(sql.as_string(connection.connection))
    return sql.decode(errors="replace") if isinstance(sql, bytes) else str(sql)
