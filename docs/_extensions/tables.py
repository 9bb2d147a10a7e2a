"""Directives that write the reference from the code: columns, options, SQL functions, signals."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management import find_commands, load_command_class
from django.db import connection, models
from django.dispatch import Signal
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

OF_DJANGO = {"help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color",
             "force_color", "skip_checks"}  # fmt: skip
SQL = resources.files("pgqueue.migrations.sql")
FUNCTION = re.compile(
    r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)"
    r"\(((?:(?!CREATE).)*?)\)\s*RETURNS\s+(?:SETOF )?(\w+)",
    re.M | re.S,
)


class Written(SphinxDirective):
    """A directive whose content a function writes, as reStructuredText, from its arguments."""

    optional_arguments = 1
    final_argument_whitespace = True
    write: Callable[..., Iterable[str]]

    def run(self) -> list[nodes.Node]:
        lines = list(type(self).write(*self.arguments))
        return self.parse_text_to_nodes("\n".join(lines), allow_section_headings=True)


def _row(name: str, about: str, kind: str = "") -> Iterator[str]:
    yield f"``{name}``" + (f" ({kind})" if kind else "")
    yield from (f"    {line}" for line in (about or "\\").splitlines())
    yield ""


def tables() -> Iterator[str]:
    """Write a section for each table, and a row for each column of it."""
    for model in apps.get_app_config("pgqueue").get_models():
        yield from _heading(model._meta.db_table)
        yield from [f"``pgqueue.models.{model.__name__}``: {_first_line(model)}", ""]
        for each in model._meta.concrete_fields:
            yield from _row(each.column, _about(each), _type(each))


def _heading(text: str) -> list[str]:
    return [text, "-" * len(text), ""]


def _first_line(model: type[models.Model]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _type(field: models.Field[Any, Any]) -> str:
    kind = field.db_type(connection) or ""
    return kind + (", may be NULL" if field.null else "")


def _about(field: models.Field[Any, Any]) -> str:
    said = str(field.help_text)
    if field.choices:
        said += " One of " + ", ".join(str(value) for value, _ in field.flatchoices) + "."
    return _text(said.strip())


def commands() -> Iterator[str]:
    """Write a section for each command: what it does, and the options of each of its verbs."""
    folder = Path(import_module("pgqueue.management").__path__[0])
    for name in sorted(find_commands(str(folder))):
        made = load_command_class("pgqueue", name)
        yield from _heading(name)
        yield from [_text(made.help), ""]
        yield from _options(f"manage.py {name}", made.create_parser("manage.py", name))


def _options(prog: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {each.dest: each.help for each in action._choices_actions}
            for verb, below in action.choices.items():
                yield from [f"**{prog} {verb}**", "", _text(helps.get(verb)), ""]
                yield from _options(f"{prog} {verb}", below)
        elif action.dest not in OF_DJANGO and action.help is not argparse.SUPPRESS:
            yield from _row(_called(action), _text(action.help, vars(action)))


def _called(action: argparse.Action) -> str:
    if not action.option_strings:
        return str(action.metavar or action.dest)
    value = "" if action.nargs == 0 else str(action.metavar or action.dest.upper())
    if action.choices:
        value = "{" + ",".join(map(str, action.choices)) + "}"
    return f"{', '.join(action.option_strings)} {value}".strip()


def _text(help: str | None, values: dict[str, Any] | None = None) -> str:
    text = help or ""
    if values is not None and "%" in text:
        text = text % values
    return re.sub(r"([*_|`\\])", r"\\\1", text)


def sql_function(name: str) -> Iterator[str]:
    """Write the newest definition's head of a function, with the comment above it."""
    for path in sorted(SQL.iterdir(), key=lambda each: each.name, reverse=True):
        if not path.name.endswith(".up.sql"):
            continue
        text = path.read_text("utf-8")
        for found in FUNCTION.finditer(text):
            if found[1] == name:
                yield from _definition(text[: found.start()], found)
                return
    raise ValueError(f"No migration makes {name}().")


def _definition(above: str, found: re.Match[str]) -> Iterator[str]:
    comment = re.search(r"((?:^--.*\n)+)\Z", above, re.M)
    said = re.sub(r"^-- ?", "", comment[1], flags=re.M).splitlines() if comment else []
    yield from [_text(" ".join(said)), "", ".. code-block:: sql", ""]
    yield from (f"    {line}" for line in f"{found[1]}({found[2]}) RETURNS {found[3]}".splitlines())
    yield ""


def signals(module: str) -> Iterator[str]:
    """Write each signal of a module, from the docstring below it."""
    analyzer = ModuleAnalyzer.for_module(module)
    given = import_module(module)
    for (_, name), lines in analyzer.find_attr_docs().items():
        if isinstance(getattr(given, name, None), Signal):
            yield from _row(name, " ".join(lines).strip())


def setup(app: Sphinx) -> dict[str, Any]:
    for each in (tables, commands, sql_function, signals):
        name = each.__name__.replace("_", "-")
        app.add_directive(name, type(name, (Written,), {"write": staticmethod(each)}))
    return {"parallel_read_safe": True}
