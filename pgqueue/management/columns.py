"""Text in columns, for lists."""

from collections.abc import Sequence

from pgqueue.values.escaping import on_one_line

WIDEST = 40
"""The most characters of a cell in a list with bounded widths."""


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts with aligned columns."""
    lines = [[on_one_line(cell) for cell in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def bounded(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts; each cell has one line of at most `WIDEST` characters."""
    return aligned([[short(cell) for cell in line] for line in lines])


def short(cell: str) -> str:
    """Return a cell as one line of at most `WIDEST` characters."""
    text = on_one_line(" ".join(cell.split()))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
