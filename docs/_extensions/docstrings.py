"""Docstrings as they are written here, for Sphinx: Markdown's code blocks and backticks."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

BEFORE_NAPOLEON = 100
SECTION = re.compile(r"^(Args|Raises|Returns|Yields|Attributes|Note|Example)s?:$")

MARKUP = re.compile(
    r"""(?<=\w)_(?=["',.)\s])|(?<![`*])\*(?=[/"' ])"""  # a name that ends in _; a lone asterisk
)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", _rewrite, priority=BEFORE_NAPOLEON)
    return {"parallel_read_safe": True}


def _rewrite(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Mark indented blocks as code, and have names that end in an underscore be no links."""
    written: list[str] = []
    inside = ""
    for line in lines:
        is_code = line.startswith("    ") and not SECTION.match(inside)
        if is_code and written and not written[-1] and not inside.startswith("    "):
            written += ["::", ""]
        if line:
            inside = line if is_code or not line.startswith(" ") else inside
        written.append(line if is_code else MARKUP.sub(r"\\\g<0>", line))
    lines[:] = written
