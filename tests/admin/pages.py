"""The text of pages: what of it no translation would change."""

from __future__ import annotations

import re
from html.parser import HTMLParser

BEGIN, END = "⟦", "⟧"
"""Around what was translated."""
APART = "\0"
VOID = {"meta", "link", "input", "br", "hr", "img", "col", "source", "wbr"}
UNSEEN = {"script", "style", "pre", "code", "svg", "textarea", "template"}
SIDE = {"nav-sidebar", "header", "footer", "logout-form", "toggle-nav-sidebar"}
"""Parts that Django's admin has on each page, with other apps in them."""
SAID = {"title", "aria-label", "placeholder", "alt"}
UUID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
WORD = re.compile(r"[A-Za-z]{2,}")


class Texts(HTMLParser):
    """Collects the texts of a page, without those that are data by what they stand in."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        is_seen = tag not in UNSEEN and given.get("id") not in SIDE and self.sees
        if is_seen:
            self.found += [given[name] for name in SAID if name in given]
            if tag == "input" and given.get("type") in ("submit", "button"):
                self.found.append(given.get("value", ""))
        if tag not in VOID:
            self._open.append((tag, is_seen))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.sees and data.strip():
            self.found.append(" ".join(data.split()))

    @property
    def sees(self) -> bool:
        """Whether what comes next is seen."""
        return not self._open or self._open[-1][1]


def outside(text: str) -> str:
    """Return what is in no brackets. They may have elements in them, and so several texts."""
    kept, depth = [], 0
    for character in text:
        depth += (character == BEGIN) - (character == END)
        if character == APART or (depth == 0 and character != END):
            kept.append(character)
    return "".join(kept)


def untranslated(page: str, data: set[str]) -> list[str]:
    """Return the texts of a page that have words which no translation would change.

    Args:
        page: where each translation stands in brackets.
        data: words that come from tables.
    """
    texts = Texts()
    texts.feed(page)
    return [
        text.strip()
        for text in outside(APART.join(texts.found)).split(APART)
        if set(WORD.findall(UUID.sub("", text))) - data
    ]
