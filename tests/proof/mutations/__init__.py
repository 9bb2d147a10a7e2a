"""Faults that are planted in pgqueue, for the checker to find.

A mutation replaces a text of one file, or of one function of the database. The text must be there
exactly once: so a change of pgqueue that moves it fails `test_mutations.py`. Nothing is planted in
the files themselves: modules and SQL files are changed as a process of a proof reads them. Python
imports `site/sitecustomize.py` at its start, before anything else; PROOF_MUTATION names the fault.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

from pgqueue.database import sql_files

if TYPE_CHECKING:
    import psycopg

    from tests.proof.checker.anomaly import Anomaly

ROOT = Path(__file__).parent.parent.parent.parent
SITE = Path(__file__).parent / "site"


@dataclass(frozen=True)
class Mutation:
    """A fault.

    Attributes:
        name: the name by which it is planted.
        about: what is wrong, in a sentence for the report.
        found_by: the rules of the checker that must find it, by their names.
        where: a file below the repository, or "function NAME" of the database.
        old: a text that is there exactly once.
        new: the text in its place.
        faults: the names of the faults that show it soonest; empty: all faults.
    """

    name: str
    about: str
    found_by: Sequence[str]
    where: str
    old: str
    new: str
    faults: Sequence[str] = ()

    @property
    def function(self) -> str:
        """The function of the database; "": it is a file."""
        return self.where.removeprefix("function ") if self.where.startswith("function ") else ""

    def telling(self, found: Iterable[Anomaly]) -> Anomaly | None:
        """Return the anomaly of `found_by` that has the shortest history; None: there is none."""
        best = [each for each in found if each.rule in self.found_by]
        return min(best, key=lambda each: each.length, default=None)

    def applied(self, text: str) -> str:
        """Return the text with the fault.

        Raises:
            ValueError: the old text is not there exactly once.
        """
        if (times := text.count(self.old)) != 1:
            raise ValueError(f"{self.name}: the text is {times} times in {self.where}, not once.")
        return text.replace(self.old, self.new)


def environment(name: str) -> dict[str, str]:
    """Return the variables with which a new interpreter plants a mutation; "": none."""
    if not name:
        return {}
    return {"PROOF_MUTATION": name, "PYTHONPATH": os.pathsep.join(map(str, (SITE, ROOT)))}


def plant(name: str) -> None:
    """Plant a mutation in this process, which has not imported the mutated module yet."""
    mutation = named(name)
    if mutation.where.endswith(".sql"):
        _plant_in_sql(mutation)
    elif mutation.where.endswith(".py"):
        module = mutation.where.removesuffix(".py").replace("/", ".")
        if module in sys.modules:
            raise RuntimeError(f"{module} is imported already.")
        sys.meta_path.insert(0, MutatingFinder(module, mutation))


def named(name: str) -> Mutation:
    """Return the mutation of a name.

    Raises:
        SystemExit: there is none.
    """
    from tests.proof.mutations.planted import PLANTED

    for each in PLANTED:
        if each.name == name:
            return each
    raise SystemExit(f"There is no mutation {name!r}. There are: {[e.name for e in PLANTED]}.")


def plant_in_database(name: str, connect: Callable[[], psycopg.Connection[Any]]) -> None:
    """Plant a mutation of a function; other mutations are left alone."""
    mutation = named(name)
    if not mutation.function:
        return
    with connect() as connection:
        connection.execute(mutation.applied(definition(connection, mutation)).encode())


def definition(connection: psycopg.Connection[Any], mutation: Mutation) -> str:
    """Return the statement that makes the function of a mutation."""
    query = "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = %s"
    [(text,)] = connection.execute(query, [mutation.function]).fetchall()
    return str(text)


def _plant_in_sql(mutation: Mutation) -> None:
    """Change the statements of a file as `sql_files` reads them."""
    sql_files._read = reading(mutation)  # type: ignore[assignment]


def reading(mutation: Mutation) -> Callable[[str, str], dict[str, str]]:
    """Return `sql_files._read` with the fault."""
    folder, _, file = mutation.where.rpartition("/")
    mutated = (folder.replace("/", "."), file.removesuffix(".sql"))
    of_file = sql_files._read.__wrapped__

    def read(package: str, name: str) -> dict[str, str]:
        statements: dict[str, str] = of_file(package, name)
        if (package, name) != mutated:
            return statements
        hit = [each for each, text in statements.items() if mutation.old in text]
        return {**statements, **{each: mutation.applied(statements[each]) for each in hit}}

    return read


class MutatingFinder(MetaPathFinder):
    """Finds one module, and has its text changed."""

    def __init__(self, module: str, mutation: Mutation) -> None:
        self._module = module
        self._mutation = mutation

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's spec with a loader that changes its text."""
        if name != self._module:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.origin:
            spec.loader = MutatingLoader(name, spec.origin, self._mutation)
        return spec


class MutatingLoader(SourceFileLoader):
    """Compiles the changed text; it reads and writes no bytecode."""

    def __init__(self, name: str, path: str, mutation: Mutation) -> None:
        super().__init__(name, path)
        self._mutation = mutation

    def get_code(self, fullname: str) -> CodeType:
        """Return the code of the changed text."""
        text = self._mutation.applied(Path(self.path).read_text("utf-8"))
        return compile(text, self.path, "exec", dont_inherit=True)
