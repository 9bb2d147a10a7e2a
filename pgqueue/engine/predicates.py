"""Conditions of subscriptions that are SQL over an event `e` and a subscription `s`.

Someone who may add a subscription must not be able to read, or do, anything by it. So a predicate
may use what PostgreSQL itself brings and what changes nothing, no table and no sub-select; and it
is evaluated by a role that has no rights, over events and parameters that the statement is given.
What is checked is the statement that is evaluated: its tree, as PostgreSQL has parsed it, must be
that of the predicate `true` but for the condition.

Both are sent by the extended protocol, which takes one statement. By the simple one, which psycopg
prefers, a predicate might end the statement that it is a part of, and bring others.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg
from psycopg import Rollback
from psycopg.sql import SQL as Text
from psycopg.sql import Composable, Composed, Literal

from pgqueue.database.sql_files import load
from pgqueue.engine.values import Connection
from pgqueue.exceptions import InvalidSubscription
from pgqueue.values.error_words import listed, shown

SQL = load(__name__)

ROLE = "pgqueue_predicates"
COUNTED = ("{QUERY", "{RTE", "{RANGETBLENTRY", "{SUBLINK", "{AGGREF", "{WINDOWFUNC",
           "{GROUPINGFUNC", "{SORTGROUPCLAUSE", "{SETOPERATIONSTMT")  # fmt: skip
"""Parts of a statement's tree of which a predicate may add none."""
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
"""Parts of a tree that are known to run nothing but functions that the tree names.

A domain's CHECK, a field of a row type and XML are not among them, and no part that a later
PostgreSQL brings.
"""
FUNCTIONS = re.compile(r":(?:funcid|opfuncid|hashfuncid|negfuncid) (\d+)")
OPERATORS = re.compile(r":opnos? (?:\(o )?([\d ]+)")
TYPES = re.compile(r":(?:\w*type|\w*typeid|\w*typid) (\d+)")
"""Whatever a part calls the type of its value: RETURNING of json_value() has one of its own."""
COLLATIONS = re.compile(r":\w*coll(?:id|oid|ation|Oid) (\d+)")
SESSION = re.compile(r"\{SQLVALUEFUNCTION :op \d+ :type 19 ")
"""current_user and its like; those that are about time have another type than `name`."""
REFUSALS = (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError)
LIMIT = 10_000  # characters


def is_on(connection: Connection) -> bool:
    """Return whether there is the role that evaluates predicates, and this session may use it."""
    row = connection.execute(SQL["is_on"], {"role": ROLE}).fetchone()
    return bool(row and row[0])


def check(connection: Connection, predicate: str) -> None:
    """Say no to what is no predicate, or none that may be evaluated.

    Raises:
        InvalidSubscription: there is no role for it, or it can't be parsed, or it uses something
            that it may not.
    """
    if not is_on(connection):
        raise InvalidSubscription(
            f"Predicates in SQL are off: this database has no role {ROLE}, or {_user(connection)} "
            f"may not use it. A superuser switches them on: CREATE ROLE {ROLE} NOLOGIN; GRANT "
            f"{ROLE} TO {_user(connection)}."
        )
    if "\x00" in predicate or len(predicate) > LIMIT:
        raise InvalidSubscription(f"predicate={shown(predicate)}: it may be {LIMIT} characters.")
    _refuse_schemas(connection, predicate)
    plain, own = _tree(connection, "true"), _tree(connection, predicate)
    # One that ends the parenthesis it stands in, and begins another, is no expression here.
    _tree(connection, f"CASE WHEN\n{predicate}\nTHEN true END")
    for part in COUNTED:
        if own.count(part) > plain.count(part):
            raise InvalidSubscription(
                f"predicate={shown(predicate)}: it must be a condition over e and s, without "
                "sub-selects, tables, aggregates or functions that return sets."
            )
    if unknown := set(NODE.findall(own)) - NODES:
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use {listed(sorted(unknown))}, as "
            "PostgreSQL calls a part of it: only operators and functions of PostgreSQL itself that "
            "change nothing, and no domains, row types or XML."
        )
    if SESSION.search(own):
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not ask who or where the session is."
        )
    if foreign := _foreign(connection, own):
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use {listed(foreign)}: only functions and "
            "types of PostgreSQL itself that change nothing and look at their arguments alone."
        )


def _refuse_schemas(connection: Connection, predicate: str) -> None:
    """Refuse names in other schemas, before PostgreSQL parses them.

    It reads a literal where it parses it: '{a}'::shop.code[] would run the CHECK of a domain at
    once, with the rights of this session.

    Raises:
        InvalidSubscription: there is one.
    """
    names = [name.replace('"', '""') for (name,) in connection.execute(SQL["schemas"])]
    of_others = "|".join(map(re.escape, names))
    found = re.search(rf'(?<![\w$])({of_others})"?\s*(?:\.|/\*|--)', predicate, re.IGNORECASE)
    if found or re.search(r'U&\s*"', predicate, re.IGNORECASE):
        name = found[1] if found else 'U&"…"'
        raise InvalidSubscription(
            f"predicate={shown(predicate)}: it may not use {name}, where a name of a schema ends: "
            "only what PostgreSQL itself brings, written without a schema."
        )


def _user(connection: Connection) -> str:
    row = connection.execute(SQL["user"]).fetchone()
    return str(row[0]) if row else "the user"


def _tree(connection: Connection, predicate: str) -> str:
    """Return the tree of the statement that evaluates a predicate; nothing is left of it."""
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
    """Return the names of what a tree uses that it may not."""
    given = {
        "functions": list(map(int, FUNCTIONS.findall(tree))),
        "operators": [int(id) for ids in OPERATORS.findall(tree) for id in ids.split()],
        "types": list(map(int, TYPES.findall(tree))),
        "collations": list(map(int, COLLATIONS.findall(tree))),
    }
    return [name for (name,) in connection.execute(SQL["foreign"], given)]


def _evaluating(predicate: str, events: Composable, subscriptions: Composable) -> Composed:
    # In lines of its own: a comment at its end must not hide what follows.
    return Text(SQL["evaluate"]).format(
        predicate=Text("\n" + predicate + "\n"), events=events, subscriptions=subscriptions
    )


def _send(connection: Connection, statement: Composed, *values: str) -> psycopg.Cursor[Any]:
    """Execute one statement: if these are several, PostgreSQL refuses them all."""
    # Not the connection's own kind of cursor: Django's puts values into the text, and sends that
    # by the simple protocol. Without values, only `binary` makes psycopg use the extended one.
    return psycopg.Cursor(connection).execute(statement, values or None, binary=True)


def evaluate(
    connection: Connection, predicate: str, events: str, subscriptions: str
) -> list[tuple[int, str]]:
    """Return which events meet the predicate for which subscriptions: positions and names.

    Args:
        connection: in a transaction.
        events, subscriptions: JSON arrays of what `e` and `s` are.

    Raises:
        psycopg.Error: the predicate fails, or takes too long.
    """
    found: list[tuple[int, str]] = []
    statement = _evaluating(predicate.replace("%", "%%"), Text("%s::jsonb"), Text("%s::jsonb"))
    with connection.transaction():
        # A name means here what it meant when it was checked: something of PostgreSQL itself.
        connection.execute(SQL["confine"])
        connection.execute(SQL["hand_over"], {"role": ROLE})
        rows = _send(connection, statement, events, subscriptions)
        found = [(position, name) for position, name in rows]
        # The role is given back.
        raise Rollback
    return found
