"""Text in columns, for commands that list things."""

from collections.abc import Sequence


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of cells as texts, whose columns begin below each other."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
