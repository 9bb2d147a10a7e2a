"""Print the SQL that the package sends, with its fragments put in.

    python -m pgqueue.sql settle.retry          # prints one statement
    python -m pgqueue.sql settle                # the names of a file's statements
    python -m pgqueue.sql                       # all names

A name may begin with the room: `engine.settle.retry`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from pgqueue.database.sql_files import load, names
from pgqueue.values.error_words import hint

NOT_OF_THE_PACKAGE = frozenset({"migrations"})
"""Rooms whose SQL is run only once."""


@cache
def statements() -> dict[str, str]:
    """Return all statements, by names such as `engine.settle.retry`."""
    found: dict[str, str] = {}
    for module in _modules(files("pgqueue")):
        texts = load(f"pgqueue.{module}")
        found |= {f"{module}.{name}": texts[name] for name in names(f"pgqueue.{module}")}
    return found


def _modules(folder: Traversable, prefix: str = "") -> Iterator[str]:
    """Yield the modules that have a file of SQL beside them."""
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir() and each.name not in NOT_OF_THE_PACKAGE:
            yield from _modules(each, f"{prefix}{each.name}.")
        elif each.name.endswith(".sql"):
            yield prefix + each.name.removesuffix(".sql")


def find_statements(name: str, known: Mapping[str, str]) -> dict[str, str]:
    """Return the statements of a name: one statement, a file's statements, or a room's.

    Args:
        name: dotted; the parts before the last ones may be left out.
        known: all statements, by their whole names.
    """
    wanted = f".{name}"
    whole = {each: text for each, text in known.items() if f".{each}".endswith(wanted)}
    return whole or {each: text for each, text in known.items() if f"{wanted}." in f".{each}"}


def main(arguments: Sequence[str]) -> int:
    """Print a statement, or names; return the status to exit with."""
    known = statements()
    name = arguments[0] if arguments else ""
    found = find_statements(name, known) if name else known
    if not found:
        print(f"No statement is named {name!r}. {hint(name, known)}", file=sys.stderr)
        return 1
    if len(found) > 1:
        print("\n".join(found))
    else:
        [text] = found.values()
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
