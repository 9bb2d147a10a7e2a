"""The engine's statements, and which of them a text is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from pgqueue import engine
from pgqueue.database.sql_files import load

FOLDER = Path(engine.__file__).parent
NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
OF_MIGRATIONS = {
    *("log.index_keys", "log.drop_index_of_keys"),
    *("log.index_streams", "log.drop_index_of_streams"),
    *("log.index_inbox", "log.drop_index_of_inbox"),
}
OF_A_PRODUCERS_ROLE = {"flows.produce_waits", "publish.publish_each"}
"""Here all roles own the tables: `tests/engine/test_roles.py` does what a producer does."""
INCLUDED = re.compile(r"^ *-- include: (\w+)$", re.MULTILINE)


@cache
def all_of_them() -> dict[str, re.Pattern[str]]:
    """Return what each statement looks like when it is sent, by "module.name".

    What others include is no statement of its own, and a migration's is none of a running queue's.
    """
    statements = {}
    for file in sorted(FOLDER.glob("*.sql")):
        text = file.read_text()
        fragments = set(INCLUDED.findall(text))
        loaded = load(f"{engine.__name__}.{file.stem}")
        for name in NAME.findall(text):
            if file.stem != "shared" and name not in fragments:
                statements[f"{file.stem}.{name}"] = _sent(loaded[name])
    return {
        name: sent
        for name, sent in statements.items()
        if not name.startswith("tracking.") and name not in OF_MIGRATIONS | OF_A_PRODUCERS_ROLE
    }


def _sent(statement: str) -> re.Pattern[str]:
    """Return the pattern of a statement with parameters, or their values, in their places.

    And with any condition on events, or any table, in the place of a name in braces.
    """
    parts = re.split(r"%\(\w+\)s|\{\w+\}", statement)
    return re.compile(".+?".join(re.escape(part.replace("%%", "%")) for part in parts), re.DOTALL)


@cache
def names_of(text: str) -> frozenset[str]:
    """Return the names of the statements that a text is: one, none, or several equal ones."""
    return frozenset(name for name, sent in all_of_them().items() if sent.fullmatch(text.strip()))
