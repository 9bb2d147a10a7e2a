"""The code blocks of the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^( *)```([\w{}]+)([^\n]*)\n(.*?)^\1```$", re.M | re.S)
FILE = re.compile(r"\A# ([\w/]+\.py)\n")


@dataclass(frozen=True)
class Block:
    """One block of a page: which it is there, from 1, and where."""

    page: str
    number: int
    language: str
    line: int
    section: str
    code: str

    @property
    def file(self) -> str | None:
        """The file that it is a part of, where its first line is a comment that says so."""
        found = FILE.match(self.code)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Return all pages, as paths inside the repository."""
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(each.relative_to(ROOT)) for each in written)


def blocks(page: str, *languages: str) -> list[Block]:
    """Return the blocks of a page that name their language; or only those of some languages."""
    return [each for each in _blocks(page) if not languages or each.language in languages]


def _blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text("utf-8")
    for number, found in enumerate(BLOCK.finditer(text), 1):
        before = text[: found.start()]
        sections = re.findall(r"^#+ (.*)$", BLOCK.sub("", before), re.M)
        code = re.sub(rf"^{found[1]}", "", found[4], flags=re.M)
        line = before.count("\n") + 1
        yield Block(page, number, found[2] + found[3], line, sections[-1] if sections else "", code)
