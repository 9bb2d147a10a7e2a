"""Notice what the user's code does to a database session: to its state, and to its transaction.

A setting, a role, a temporary table or an advisory lock outlives the task that made it, and the
next task on the same connection would find it: with another tenant's `search_path` it would write
into that tenant's tables. PostgreSQL has no command that undoes exactly this: `RESET ALL` also
undoes what Django and receivers of `connection_created` have set, and `DISCARD ALL` the prepared
statements. So the worker notices such statements, and closes the connection after the task.

A statement is judged by its text. One that is not known to be harmless counts as a change: the cost
of a mistake is then one connection. A setting that a function changes in the server is only seen if
the server reports it.

A transaction that is open around the user's code must still be the same one afterwards. The client
sees that nearly always: a session without a transaction, in which one had begun, has lost it. But a
statement that ends the transaction may begin another at once. So the server is asked for the
transaction's number before a statement of this kind, and in the end. Other statements cost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.sql import Composable

from pgqueue.conf import settings

REPORTED = (
    *("search_path", "session_authorization", "is_superuser", "TimeZone", "DateStyle"),
    *("IntervalStyle", "default_transaction_read_only", "standard_conforming_strings"),
)
"""Settings that the server reports when they change, `search_path` from PostgreSQL 18 on; with
`is_superuser` most changes of the role, too."""

KNOWN_TEXTS = 2000
LONGEST_KNOWN = 10_000
"""The longest text, in characters, that is kept with its judgement: a bulk insert has megabytes. Of
a longer one, the digest is kept."""

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BEFORE = re.compile(rf"(?:\s|\(|{_COMMENT.pattern})*", re.DOTALL)
_WORDS = re.compile(r"([a-z]+)(?:\s+([a-z]+))?")
_HARMLESS = frozenset(
    [
        *("select", "insert", "update", "delete", "merge", "with", "values", "table", "copy"),
        *("begin", "start", "savepoint", "release", "rollback", "abort", "commit", "end", "lock"),
        *("explain", "show", "declare", "fetch", "move", "close", "execute", "notify"),
        *("create", "alter", "drop", "truncate", "comment", "grant", "revoke", "refresh"),
        *("analyze", "vacuum", "reindex", "cluster", "checkpoint"),
    ]
)
_OF_THE_TRANSACTION = frozenset(["local", "transaction", "constraints"])
# Our own statements on a connection of Django's set things in this form: any other set_config costs
# the connection.
_SET_LOCALLY = re.compile(r"set_config\s*\([^,()]+,[^,()]+,\s*true\s*\)")
_LASTING = re.compile(
    r"set_config|pg_(try_)?advisory_lock|pg_temp|\bwith\s+hold\b"
    r"|\bcreate\s+(or\s+replace\s+)?((local|global)\s+)?temp(orary)?\b"
    r"|^(select|with|explain)\b.*\binto\s+((local|global)\s+)?temp(orary)?\s",
    re.DOTALL,
)
# With tenants, a worker resets the path after each run: then it costs no connection.
_SETS_PATH = re.compile(
    r"(set\s+(session\s+)?search_path\b|reset\s+search_path\s*$)"
    r"|select\s+(pg_catalog\.)?set_config\s*\(\s*'search_path'\s*,"
    r"\s*(%s|%\(\w+\)s|'[^']*')\s*,\s*false\s*\)\s*$"
)
_ENDS = re.compile(
    # Without backtracking, which would try each way to divide a run of dashes or of comments.
    rf"(commit|end|abort|rollback)\b(?!(?:\s|{_COMMENT.pattern})*+prepared\b)"
    rf"(?!(?:\s|{_COMMENT.pattern}|\b(?:work|transaction)\b)*+\bto\b)|prepare\s+transaction\b",
    re.DOTALL,
)


class _LongText:
    """A text that is known by its digest, and kept only until it is judged."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LongText) and self._digest == other._digest


def _remembered(judge: Callable[[str], bool]) -> Callable[[str], bool]:
    """Keep the judgements of the last texts."""

    @lru_cache(KNOWN_TEXTS)
    def known(text: str | _LongText) -> bool:
        return judge(text.text if isinstance(text, _LongText) else text)

    @wraps(judge)
    def judged(text: str) -> bool:
        if len(text) <= LONGEST_KNOWN:
            return known(text)
        long = _LongText(text)
        try:
            return known(long)
        finally:
            long.text = ""

    return judged


def watch(connection: psycopg.Connection[Any]) -> None:
    """Watch the statements of a connection from now on; its present state is the one to keep."""
    _sessions[connection] = _Session(connection)
    factory: Any = connection.cursor_factory
    if not issubclass(factory, _Watching):
        connection.cursor_factory = _watching(factory)


def has_changed(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the state of a watched session may have changed since `watch`.

    Only the thread that uses the connection may ask.
    """
    session = _sessions.get(connection)
    if session is None or connection.closed:
        return False
    return session.is_marked or session.reported != _reported(connection)


def reset_path(connection: psycopg.Connection[Any]) -> None:
    """Reset the search_path of a watched session if a statement has set it. Only with tenants.

    The path is the one of the connection's options, or of its role, again.

    Raises:
        psycopg.Error: the connection broke.
    """
    session = _sessions.get(connection)
    if session is not None and session.has_path and not connection.closed:
        psycopg.Cursor(connection).execute("RESET search_path")
        session.has_path = False


def is_watched(connection: psycopg.Connection[Any]) -> bool:
    """Return whether the statements of a connection are watched."""
    return connection in _sessions


def keep(connection: psycopg.Connection[Any]) -> Kept | None:
    """Begin to look at the open transaction of a connection; None: the session isn't watched.

    The caller ends that by `Kept.leave`.
    """
    session = _sessions.get(connection)
    return None if session is None else Kept(connection, session)


def is_marked(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a statement may have changed the session. Any thread may ask."""
    session = _sessions.get(connection)
    return session is not None and (session.is_marked or session.has_path)


@_remembered
def changes_session(text: str) -> bool:
    """Return whether these statements may change the session beyond their transaction."""
    return any(map(_is_lasting, text.split(";")))


@_remembered
def sets_only_path(text: str) -> bool:
    """Return whether the search_path is the only lasting change that these statements make."""
    return all(
        _SETS_PATH.match(_BEFORE.sub("", each, count=1).lower())
        for each in text.split(";")
        if _is_lasting(each)
    )


def _is_lasting(statement: str) -> bool:
    text = _BEFORE.sub("", statement, count=1).lower()
    if not text:
        return False
    words = _WORDS.match(text)
    if not words:
        return True
    first, second = words.groups()
    if first == "set":
        return second not in _OF_THE_TRANSACTION
    # A comment may be part of a literal instead: both readings must be harmless.
    return first not in _HARMLESS or _lasts(text) or _lasts(_COMMENT.sub(" ", text))


def _lasts(text: str) -> bool:
    return bool(_LASTING.search(_SET_LOCALLY.sub("", text)))


@_remembered
def may_end_transaction(text: str) -> bool:
    """Return whether any statement seems to end its transaction."""
    return any(map(ends_transaction, text.split(";")))


def ends_transaction(statement: str) -> bool:
    """Return whether a statement ends its transaction."""
    return bool(_ENDS.match(_BEFORE.sub("", statement, count=1).lower()))


class Kept:
    """A transaction that is open, or that psycopg is about to begin, and must not be ended."""

    __slots__ = ("_connection", "_has_begun", "_has_ended", "_number", "_outer", "_session")

    def __init__(self, connection: psycopg.Connection[Any], session: _Session) -> None:
        self._connection = connection
        self._session = session
        self._has_begun = connection.pgconn.transaction_status != TransactionStatus.IDLE
        self._has_ended = False
        self._number: str | None = None
        self._outer, session.kept = session.kept, self

    def note(self, text: str) -> None:
        """Look at a statement that is about to be sent."""
        status = self._connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            self._has_ended |= self._has_begun
            # By psycopg, before this statement.
            self._has_begun = True
        if not may_end_transaction(text):
            return
        if status == TransactionStatus.INERROR:
            # The server refuses all statements unless the first one ends the transaction.
            self._has_ended |= ends_transaction(text.split(";")[0])
        elif self._number is None:
            self._number = self._ask("SELECT pg_current_xact_id()::text")

    def leave(self) -> bool:
        """Stop looking; return whether the transaction was ended."""
        outer = self._session.kept = self._outer
        is_another = self._is_another()
        if outer is not None:
            outer._has_begun |= self._has_begun
            outer._has_ended |= is_another
        return is_another

    def _is_another(self) -> bool:
        if self._has_ended or self._connection.closed:
            return self._has_ended
        status = self._connection.pgconn.transaction_status
        if status == TransactionStatus.IDLE:
            return self._has_begun
        if self._number is None or status != TransactionStatus.INTRANS:
            return False
        try:
            return self._number != self._ask("SELECT pg_current_xact_id_if_assigned()::text")
        except psycopg.Error:
            return True

    def _ask(self, query: Any) -> str | None:
        row = psycopg.Cursor(self._connection, row_factory=tuple_row).execute(query).fetchone()
        return None if row is None else row[0]


class _Session:
    """The state that a session began with, and whether a statement may have changed it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.is_marked = False
        self.has_path = False
        self.resets_path = settings().tenant is not None
        self.kept: Kept | None = None
        self.reported = _reported(connection)


_sessions: WeakKeyDictionary[psycopg.Connection[Any], _Session] = WeakKeyDictionary()


def _reported(connection: psycopg.Connection[Any]) -> list[str | None]:
    return [connection.info.parameter_status(name) for name in REPORTED]


def _note(connection: psycopg.Connection[Any], query: Any) -> None:
    if isinstance(query, bytes):
        query = query.decode(errors="replace")
    elif isinstance(query, Composable):
        query = query.as_string(connection)
    session = _sessions[connection]
    if not isinstance(query, str):
        session.is_marked = True
        return
    if changes_session(query):
        if session.resets_path and sets_only_path(query):
            session.has_path = True
        else:
            session.is_marked = True
    if session.kept is not None:
        session.kept.note(query)


class _Watching(psycopg.Cursor[Any]):
    """A cursor that looks at each statement before it sends it."""

    def execute(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        _note(self.connection, query)
        return super().execute(query, *args, **kwargs)

    def executemany(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        _note(self.connection, query)
        return super().executemany(query, *args, **kwargs)

    def stream(self, query: Any, *args: Any, **kwargs: Any) -> Any:
        _note(self.connection, query)
        return super().stream(query, *args, **kwargs)

    def copy(self, statement: Any, *args: Any, **kwargs: Any) -> Any:
        _note(self.connection, statement)
        return super().copy(statement, *args, **kwargs)


@lru_cache(None)
def _watching(factory: Any) -> type[psycopg.Cursor[Any]]:
    return type(f"Watching{factory.__name__}", (_Watching, factory), {})
