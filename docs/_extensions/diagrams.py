"""The directive `diagram`: boxes and arrows, drawn into the page (see `drawing`)."""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst.directives import unchanged_required
from drawing import STYLE, WIDEST, InvalidDrawing, parse, svg, width
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Diagram(SphinxDirective):
    """A drawing. Its option `about` describes it in a sentence, for readers who do not see it."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"about": unchanged_required}

    def run(self) -> list[nodes.Node]:
        if "about" not in self.options:
            raise self.error("A diagram needs the option `about`, for readers who do not see it.")
        try:
            drawing = parse("\n".join(self.content))
        except InvalidDrawing as error:
            raise self.error(str(error)) from error
        if width(drawing) > WIDEST:
            raise self.error(f"The diagram is {width(drawing):.0f} px wide: {WIDEST} is the most.")
        drawn = svg(drawing, about=self.options["about"])
        html = f'<div class="drawing"><style>{STYLE}</style>{drawn}</div>'
        return [nodes.raw("", html, format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("diagram", Diagram)
    return {"parallel_read_safe": True}
