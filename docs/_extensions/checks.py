"""Checks that Sphinx does not make: links to missing files, names without a description."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers.sql import PostgresLexer
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

import pgqueue

logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_lexer("sql", PostgresLexer)
    app.connect("doctree-read", _check_links)
    app.connect("env-check-consistency", _check_names)
    return {"parallel_read_safe": True}


def _check_links(app: Sphinx, doctree: nodes.document) -> None:
    folder = Path(app.env.doc2path(app.env.current_document.docname)).parent
    for node in doctree.findall(nodes.reference):
        target = node.get("refuri", "")
        is_outside = "://" in target or target.startswith(("#", "mailto:"))
        if target and not is_outside and not (folder / target.partition("#")[0]).exists():
            logger.warning("There is nothing at %r.", target, location=node)


def _check_names(app: Sphinx, env: BuildEnvironment) -> None:
    described = env.domains.python_domain.objects
    for name in pgqueue.__all__:
        home = pgqueue._homes()[name]
        if not {f"pgqueue.{name}", f"{home}.{name}"} & described.keys():
            logger.warning("pgqueue.%s is described nowhere in docs/reference.", name)
