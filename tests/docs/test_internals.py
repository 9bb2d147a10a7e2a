"""The pages about the package's inside name what is there, and their diagrams can be drawn."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from functools import cache
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest
from django.apps import apps

from tests.docs.blocks import ROOT, blocks

PACKAGE = ROOT / "pgqueue"
PAGES = [
    f"docs/internals/{name}.md"
    for name in (
        *("index", "life", "tables", "claiming", "limits", "worker", "events", "flows"),
        "pipeline",
    )
]
ROOMS = {
    each.stem
    for each in PACKAGE.iterdir()
    if (each.is_dir() or each.suffix == ".py") and not each.name.startswith("__")
}
ROOM = "|".join(sorted(ROOMS))
FENCE = re.compile(r"^```.*$", re.M)
CODE = re.compile(r"`([^`\n]+)`")
A_PATH = re.compile(rf"(?:pgqueue/)?(?:(?:{ROOM})/[\w/.]*|\w+\.(?:py|sql))")
A_NAME = re.compile(rf"(?:{ROOM})(?:\.\w+)+")
A_TEST = re.compile(r"(tests/[\w/.]+)(?:::([\w:]+))?")
IN_THE_DATABASE = re.compile(r"pgqueue_\w+")
STATEMENT = re.compile(r"^-- name: (\w+)$", re.M)


def words(page: str) -> Iterator[str]:
    """Yield what a page has in backticks, in its text and in its diagrams."""
    text = FENCE.sub("", (ROOT / page).read_text("utf-8"))
    yield from (found.removesuffix("()") for found in CODE.findall(text))


@cache
def read(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the definitions in a body by their names; also below `if` and `try`."""
    found: dict[str, ast.stmt] = {}
    for each in body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[each.name] = each
        elif isinstance(each, ast.Assign | ast.AnnAssign):
            targets = each.targets if isinstance(each, ast.Assign) else [each.target]
            found |= {target.id: each for target in targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.If | ast.Try):
            found |= defined(each.body)
    return found


def is_there(name: str) -> bool:
    """Return whether a dotted name is a module, or something that a module or its SQL defines."""
    folder, parts = PACKAGE, name.split(".")
    while parts and (folder / parts[0]).is_dir():
        folder /= parts.pop(0)
    if not parts:
        return True
    module = folder / f"{parts[0]}.py"
    if module.exists() or module.with_suffix(".sql").exists():
        parts.pop(0)
    else:
        module = folder / "__init__.py"
    return _has(module, parts)


def _has(module: Path, parts: list[str]) -> bool:
    if not parts:
        return True
    sql = module.with_suffix(".sql")
    if sql.exists() and len(parts) == 1 and parts[0] in STATEMENT.findall(sql.read_text("utf-8")):
        return True
    body = read(module).body if module.exists() else []
    for number, part in enumerate(parts, 1):
        found = defined(body).get(part)
        if not isinstance(found, ast.ClassDef):
            return found is not None and number == len(parts)
        body = found.body
    return True


@cache
def schema() -> str:
    """Return the text of the files that define tables and functions of the database."""
    files = [*(PACKAGE / "models").glob("*.py"), *(PACKAGE / "migrations").rglob("*.*")]
    return "\n".join(each.read_text("utf-8") for each in files if each.suffix in (".py", ".sql"))


def fault(word: str) -> str | None:
    """Return why a word in backticks names nothing; None: it does, or it names no part of this."""
    if A_PATH.fullmatch(word):
        path = word.removeprefix("pgqueue/")
        return None if (PACKAGE / path).exists() else "there is no such file in pgqueue/"
    if A_NAME.fullmatch(word):
        return None if is_there(word) else "no module defines that"
    if found := A_TEST.fullmatch(word):
        path, name = found.groups()
        text = (ROOT / path).read_text("utf-8") if (ROOT / path).is_file() else ""
        is_known = all(part in text for part in (name or "").split("::"))
        return None if (ROOT / path).exists() and is_known else "there is no such test"
    if IN_THE_DATABASE.fullmatch(word):
        # The pages leave out the version at the end of a function's name.
        found = re.search(rf"\b{word}(_v\d+)?\b", schema())
        return None if found else "no model and no migration defines that"
    return None


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_only_what_is_there(page: str) -> None:
    faults = {word: said for word in words(page) if (said := fault(word))}

    assert not faults, f"{page} names what is not there; rename it in the page, too: {faults}"


@pytest.mark.parametrize("page", PAGES[1:])
def test_a_page_follows_the_code_by_its_names(page: str) -> None:
    named = [word for word in words(page) if A_PATH.fullmatch(word) or A_NAME.fullmatch(word)]

    assert len(named) >= 10


@pytest.mark.parametrize(
    "word",
    [
        "pgqueue/engine/settled.py",
        "engine/settled.sql",
        "settle.py",
        "engine.settle.completed",
        "worker.settler.Settler.puts",
        "worker.settler.write.verb",
        "engine.shared.heart",
        "pgqueue_messages",
        "tests/engine/test_settled.py",
        "tests/engine/test_settle.py::test_nothing_of_the_kind",
    ],
)
def test_a_name_of_nothing_is_found(word: str) -> None:
    assert fault(word)


@pytest.mark.parametrize(
    "word",
    [
        "pgqueue/engine/settle.py",
        "engine/settle.sql",
        "engine/",
        "conf.py",
        "engine.settle.complete",
        "engine.settle.mine",
        "engine.shared.heard",
        "worker.settler.Settler.put",
        "conf.Settings.lease",
        "pgqueue_message",
        "pgqueue_tell",
        "order.paid",
        "tests/chaos",
    ],
)
def test_a_name_of_something_is_none(word: str) -> None:
    assert fault(word) is None


def test_the_index_has_the_rooms_in_their_order() -> None:
    contract = ConfigParser()
    contract.read(ROOT / "setup.cfg")
    layers = contract["importlinter:contract:rooms"]["layers"].split()
    text = (ROOT / PAGES[0]).read_text("utf-8").partition("## The rooms")[2]
    rows = re.findall(r"^\| ((?:`\w+`(?: · )?)+) \|", text.partition("\n## ")[0], re.M)

    said = [room for row in rows for room in CODE.findall(row)]

    assert said == [layer.strip("()") for layer in layers]


def test_the_page_of_tables_has_each_table() -> None:
    tables = {model._meta.db_table for model in apps.get_app_config("pgqueue").get_models()}
    tables |= set(re.findall(r"^CREATE (?:UNLOGGED )?TABLE (pgqueue_[a-z_]+) ", schema(), re.M))

    assert sorted(tables - set(words("docs/internals/tables.md"))) == []


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    """The module that draws, which is no part of any package."""
    sys.path.insert(0, str(ROOT / "docs" / "_extensions"))
    try:
        import drawing
    finally:
        sys.path.pop(0)
    return drawing


@pytest.mark.parametrize("page", PAGES)
def test_the_diagrams_of_a_page_can_be_drawn(page: str, drawing: ModuleType) -> None:
    found = blocks(page, "{diagram}")

    assert found, f"{page} has no diagram"
    for each in found:
        about, _, text = each.code.partition("\n\n")
        parsed = drawing.parse(text)
        drawn = drawing.svg(parsed, about=about)
        assert about.startswith(":about: ")
        assert drawing.width(parsed) <= drawing.WIDEST, f"{each} is too wide"
        assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314
        assert "href" not in drawn  # nothing is asked for when the page is shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a b\n\na: One", "'b' needs a cell"),
        ("a\n\na: One\nb: Two", "'b' needs a cell"),
        ("a\n\na: One\na -> b", "'b' needs a cell"),
        ("a\n\na: One\n?", "neither a box nor an arrow"),
        ("a\n\na (round): One", "the kind must be one of"),
    ],
)
def test_a_drawing_that_is_wrong_says_where(text: str, said: str, drawing: ModuleType) -> None:
    with pytest.raises(drawing.InvalidDrawing, match=re.escape(said)):
        drawing.parse(text)
