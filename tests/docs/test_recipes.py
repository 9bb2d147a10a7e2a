"""The recipes name files that exist, and every file of the package that has their example."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "internals" / "recipes.md"
NAMED = re.compile(r"`((?:pgqueue|tests|docs)/[\w./-]*|CHANGELOG\.md)(?:::(\w+))?`")


def recipes() -> dict[str, str]:
    """Return the text of each recipe by its title."""
    _, *parts = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {part.partition("\n")[0]: part for part in parts}


RECIPES = recipes()


def examples(text: str) -> list[str]:
    """Return the words of a recipe's example."""
    [line] = re.findall(r"^\*\*Example:\*\* (.*)$", text, re.MULTILINE)
    return re.findall(r"`(\w+)`", line)


def files_with(word: str) -> Iterator[str]:
    """Yield the files of the package that have a word, without migrations and translations."""
    for path in sorted((ROOT / "pgqueue").rglob("*.*")):
        if path.suffix not in (".py", ".pyi", ".sql", ".html"):
            continue
        if path.parts[-2] in ("migrations", "sql") or "migrations" in path.parts:
            continue
        if path.stem == word or re.search(rf"\b{word}\b", path.read_text()):
            yield str(path.relative_to(ROOT))


def test_there_are_eleven() -> None:
    assert len(RECIPES) == 11
    for text in RECIPES.values():
        assert "**CHANGELOG:** " in text
        assert examples(text)


@pytest.mark.parametrize("title", RECIPES)
def test_each_file_exists_and_has_the_name(title: str) -> None:
    named = NAMED.findall(RECIPES[title])

    assert len(named) >= 5
    for path, name in named:
        assert (ROOT / path).exists(), path
        assert not name or re.search(rf"\b{name}\b", (ROOT / path).read_text()), f"{path}::{name}"


@pytest.mark.parametrize("title", RECIPES)
def test_no_file_with_the_example_is_missing(title: str) -> None:
    named = {path for path, _ in NAMED.findall(RECIPES[title])}
    wanted = {path for word in examples(RECIPES[title]) for path in files_with(word)}

    assert wanted, f"No file has {examples(RECIPES[title])}: name another example."
    assert wanted <= named, f"{sorted(wanted - named)} have the example too: add their steps."
