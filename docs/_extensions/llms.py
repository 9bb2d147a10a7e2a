"""Write llms.txt and llms-full.txt (https://llmstxt.org): a list of all pages, and their text.

The list has the sections of docs/index.md. The text of a page is its Markdown; a page of the
reference is made from docstrings, so its text is the built one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder

SUMMARY = 200
"""Characters of a page's first sentences that the list shows at most."""


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", _write)
    return {"parallel_read_safe": True}


def _write(app: Sphinx, error: Exception | None) -> None:
    if error or app.builder.format != "html":
        return
    folder = Path(app.outdir)
    (folder / "llms.txt").write_text("".join(_list(app)), "utf-8")
    (folder / "llms-full.txt").write_text("".join(_texts(app)), "utf-8")


def _list(app: Sphinx) -> Iterator[str]:
    index = app.env.get_doctree(app.config.root_doc)
    yield f"# {app.config.project}\n\n> {_summary(index)}\n"
    for caption, pages in sections(app):
        yield f"\n## {caption}\n\n"
        for page in pages:
            doctree = app.env.get_doctree(page)
            about = _summary(doctree)
            link = f"[{app.env.titles[page].astext()}]({app.builder.get_target_uri(page)})"
            yield f"- {link}: {about}\n" if about else f"- {link}\n"


def sections(app: Sphinx) -> Iterator[tuple[str, list[str]]]:
    """Return the captions of docs/index.md, with the pages that are listed below each."""
    for listed in app.env.get_doctree(app.config.root_doc).findall(addnodes.toctree):
        pages = [page for name in listed["includefiles"] for page in _below(app, name)]
        yield listed["caption"] or app.config.project, pages


def _below(app: Sphinx, page: str) -> Iterator[str]:
    yield page
    for each in app.env.toctree_includes.get(page, []):
        yield from _below(app, each)


def _summary(doctree: nodes.document) -> str:
    """Return the first sentences of a page."""
    for paragraph in doctree.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if isinstance(paragraph.parent, nodes.section) and len(text) > 20:
            sentences = re.split(r"(?<=[.:]) (?=[A-Z`])", text)
            return _within(sentences).rstrip(":")
    return ""


def _within(sentences: list[str]) -> str:
    taken = sentences[0]
    for each in sentences[1:]:
        if len(taken) + len(each) > SUMMARY:
            break
        taken += f" {each}"
    return taken


def _texts(app: Sphinx) -> Iterator[str]:
    listed = [app.config.root_doc, *(page for _, pages in sections(app) for page in pages)]
    for page in dict.fromkeys(listed):
        yield f"<!-- {app.builder.get_target_uri(page)} -->\n\n{_text(app, page).strip()}\n\n"


def _text(app: Sphinx, page: str) -> str:
    source = app.env.doc2path(page)
    if source.suffix == ".md":
        return Path(source).read_text("utf-8")
    doctree = app.env.get_and_resolve_doctree(page, app.builder)
    builder = TextBuilder(app, app.env)
    builder.init()
    visitor = builder.create_translator(doctree, builder)
    doctree.walkabout(visitor)
    return str(visitor.body)  # type: ignore[attr-defined]
