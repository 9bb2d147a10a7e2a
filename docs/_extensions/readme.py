"""Make the links of README relative: PyPI needs absolute ones, and the site has the same pages."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", _rewrite)
    return {"parallel_read_safe": True}


def _rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    if docname == "README":
        source[0] = source[0].replace(f"]({base(Path(app.srcdir))}", "](")


def base(root: Path) -> str:
    """Return the address that the repository's files are below."""
    config = ConfigParser()
    config.read(root / "setup.cfg")
    return f"{config['metadata']['url']}/blob/main/"
