"""Conditions of subscriptions that are SQL over an event `e` and a subscription `s`.

A user with the right to add a subscription must gain no other right by it. So a predicate may use
only PostgreSQL's own functions and types that change nothing. It may use no table and no
sub-select. A role without rights evaluates it over the events and parameters of the statement.
`check` reads the statement that is evaluated: its tree, as PostgreSQL has parsed it, must equal the
tree of the predicate `true`, except for the condition.

Both statements are sent by the extended protocol, which takes one statement. By the simple
protocol, which psycopg prefers, a predicate might end its statement, and begin others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import Rollback
from psycopg.sql import SQL as Text
from psycopg.sql import Composable, Composed, Literal

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection
from pgqueue.exceptions import InvalidSubscription
from pgqueue.options.sql_conditions import SQLCondition
from pgqueue.values.error_words import listed, shown

SQL = load(__name__)

ROLE = "pgqueue_predicates"
COUNTED = ("{QUERY", "{RTE", "{RANGETBLENTRY", "{SUBLINK", "{AGGREF", "{WINDOWFUNC",
           "{GROUPINGFUNC", "{SORTGROUPCLAUSE", "{SETOPERATIONSTMT")  # fmt: skip
"""Parts of a statement's tree that a predicate must not add."""
NODE = re.compile(r"\{([A-Z]+)")
NODES = frozenset(
    re.findall(
        r"\w+",
        """
    ALIAS ARRAY ARRAYCOERCEEXPR ARRAYEXPR BOOLEANTEST BOOLEXPR CASE CASEEXPR CASETESTEXPR
    CASEWHEN COALESCE COALESCEEXPR COERCEVIAIO COLLATEEXPR CONST DISTINCTEXPR FROMEXPR FUNCEXPR
    JOINEXPR JSONBEHAVIOR JSONCONSTRUCTOREXPR JSONEXPR JSONFORMAT JSONISPREDICATE JSONRETURNING
    JSONVALUEEXPR MINMAX MINMAXEXPR NAMEDARGEXPR NULLIFEXPR NULLTEST OPEXPR QUERY RANGETBLENTRY
    RANGETBLFUNCTION RANGETBLREF RELABELTYPE ROW ROWCOMPARE ROWCOMPAREEXPR ROWEXPR RTE
    RTEPERMISSIONINFO SCALARARRAYOPEXPR SQLVALUEFUNCTION SUBSCRIPTINGREF TARGETENTRY VAR WHEN
""",
    )
)
"""Parts of a tree that run no other functions than the ones that the tree names.

A domain's CHECK, a field of a row type and XML are not among them, and no part of a later
PostgreSQL.
"""
FUNCTIONS = re.compile(r":(?:funcid|opfuncid|hashfuncid|negfuncid) (\d+)")
OPERATORS = re.compile(r":opnos? (?:\(o )?([\d ]+)")
TYPES = re.compile(r":(?:\w*type|\w*typeid|\w*typid) (\d+)")
"""The types of values, by all names that parts have for them: json_value() has its RETURNING."""
COLLATIONS = re.compile(r":\w*coll(?:id|oid|ation|Oid) (\d+)")
SESSION = re.compile(r"\{SQLVALUEFUNCTION :op \d+ :type 19 ")
"""current_user and the like; the functions of time have another type than `name`."""
REFUSALS = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError)
LIMIT = 10_000  # characters
PATIENCE = 10.0
"""Seconds that a reader's predicate may take with the events of a page."""


def is_on(connection: Connection) -> bool:
    """Return whether the role that evaluates predicates exists, and this session may use it."""
    row = connection.execute(SQL["is_on"], {"role": ROLE}).fetchone()
    return bool(row and row[0])


def check(connection: Connection, predicate: str) -> None:
    """Refuse an invalid predicate, and one that uses anything forbidden.

    Raises:
        InvalidSubscription: the role for predicates is missing, PostgreSQL does not parse the
            predicate, or it uses anything forbidden.
    """
    if not is_on(connection):
        raise InvalidSubscription(
            f"Predicates in SQL are off: this database has no role {ROLE}, or {_user(connection)} "
            f"may not use it. A superuser switches them on: CREATE ROLE {ROLE} NOLOGIN; GRANT "
            f"{ROLE} TO {_user(connection)}."
        )
    if "\x00" in predicate or len(predicate) > LIMIT:
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may have at most {LIMIT} characters, and no NUL."
        )
    _refuse_schemas(connection, predicate)
    plain, own = _tree(connection, "true"), _tree(connection, predicate)
    # A predicate that ends its parenthesis, and begins another one, is no expression here.
    _tree(connection, f"CASE WHEN\n{predicate}\nTHEN true END")
    for part in COUNTED:
        if own.count(part) > plain.count(part):
            raise InvalidSubscription(
                f"predicate={shown(predicate)}: it must be a condition over e and s, without "
                "sub-selects, tables, aggregates or functions that return sets."
            )
    if unknown := set(NODE.findall(own)) - NODES:
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use {listed(sorted(unknown))} (PostgreSQL's "
            "name of a part of it). It may use only PostgreSQL's own operators and functions that "
            "change nothing, and no domains, row types or XML."
        )
    if SESSION.search(own):
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use current_user and the like."
        )
    if foreign := _foreign(connection, own):
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use {listed(foreign)}. It may use only "
            "PostgreSQL's own functions and types that change nothing and read only their "
            "arguments."
        )


def _refuse_schemas(connection: Connection, predicate: str) -> None:
    """Refuse names in other schemas, before PostgreSQL parses them.

    PostgreSQL evaluates a literal when it parses it: '{a}'::shop.code[] would run the CHECK of a
    domain at once, with the rights of this session.

    Raises:
        InvalidSubscription: there is such a name.
    """
    names = [name.replace('"', '""') for (name,) in connection.execute(SQL["schemas"])]
    of_others = "|".join(map(re.escape, names))
    found = re.search(rf'(?<![\w$])({of_others})"?\s*(?:\.|/\*|--)', predicate, re.IGNORECASE)
    if found or re.search(r'U&\s*"', predicate, re.IGNORECASE):
        name = found[1] if found else 'U&"…"'
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use the schema {name}. It may use only "
            "PostgreSQL's own functions and types, written without a schema."
        )


def _user(connection: Connection) -> str:
    row = connection.execute(SQL["user"]).fetchone()
    return str(row[0]) if row else "the user"


def _tree(connection: Connection, predicate: str) -> str:
    """Return the tree of the statement that evaluates a predicate; roll its view back."""
    tree = ""
    try:
        with connection.transaction():
            connection.execute(SQL["confine"])
            view = Text("CREATE TEMPORARY VIEW pgqueue_checked AS {}")
            nothing = Literal("[]")
            _send(connection, view.format(_evaluating(predicate, nothing, nothing)))
            row = connection.execute(SQL["tree"]).fetchone()
            tree = row[0] if row else ""
            raise Rollback
    except psycopg.Error as error:
        if connection.closed or not isinstance(error, REFUSALS):
            raise
        raise InvalidSubscription(f"predicate={shown(predicate)}: {error}") from error
    return tree


def _foreign(connection: Connection, tree: str) -> list[str]:
    """Return the names of forbidden functions, operators and types that a tree uses."""
    given = {
        "functions": list(map(int, FUNCTIONS.findall(tree))),
        "operators": [int(id) for ids in OPERATORS.findall(tree) for id in ids.split()],
        "types": list(map(int, TYPES.findall(tree))),
        "collations": list(map(int, COLLATIONS.findall(tree))),
    }
    return [name for (name,) in connection.execute(SQL["foreign"], given)]


def _evaluating(predicate: str, events: Composable, subscriptions: Composable) -> Composed:
    # The predicate has its own lines: a comment at its end must not hide the rest of the statement.
    return Text(SQL["evaluate"]).format(
        predicate=Text("\n" + predicate + "\n"), events=events, subscriptions=subscriptions
    )


def _send(connection: Connection, statement: Composed, *values: str) -> psycopg.Cursor[Any]:
    """Execute one statement: PostgreSQL refuses a text with several statements."""
    # Not the connection's own kind of cursor: Django's puts values into the text, which goes by the
    # simple protocol. Without values, only `binary` makes psycopg use the extended one.
    return psycopg.Cursor(connection).execute(statement, values or None, binary=True)


def evaluate(
    connection: Connection, predicate: str, events: str, subscriptions: str
) -> list[tuple[int, str]]:
    """Return the pairs of an event and a subscription that meet the predicate.

    Each pair has the event's position and the subscription's name.

    Args:
        connection: in a transaction.
        events, subscriptions: JSON arrays of the rows `e` and `s`.

    Raises:
        psycopg.Error: the predicate fails, or takes too long.
    """
    found: list[tuple[int, str]] = []
    statement = _evaluating(predicate.replace("%", "%%"), Text("%s::jsonb"), Text("%s::jsonb"))
    with connection.transaction():
        # Names have the same meaning as in the check: they are PostgreSQL's own.
        connection.execute(SQL["confine"])
        connection.execute(SQL["hand_over"], {"role": ROLE})
        rows = _send(connection, statement, events, subscriptions)
        found = [(position, name) for position, name in rows]
        # The rollback gives the role back.
        raise Rollback
    return found


_checked: set[str] = set()
"""The predicates of readers that this process has checked."""


def check_once(connection: Connection, predicate: str) -> None:
    """Check a predicate as `check` does, unless this process has checked it before."""
    if predicate not in _checked:
        check(connection, predicate)
        _checked.add(predicate)


def met(connection: Connection, condition: SQLCondition, positions: Sequence[int]) -> set[int]:
    """Return the positions whose events meet the condition of a reader.

    Raises:
        InvalidSubscription: the predicate is invalid.
        psycopg.Error: the predicate fails, or takes more than `PATIENCE`.
    """
    check_once(connection, condition.predicate)
    given = {"positions": list(positions), "reader": condition.reader}
    with connection.transaction(force_rollback=True):  # nothing is left of what it sets
        connection.execute(SQL["patience"], {"patience": f"{PATIENCE * 1000:.0f}ms"})
        rows = connection.execute(SQL["events"], given).fetchone() or ("[]", "[]")
        found = evaluate(connection, condition.predicate, *rows)
    return {position for position, _ in found}
