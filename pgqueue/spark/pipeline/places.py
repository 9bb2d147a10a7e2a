"""The place where an error was raised, and its message without values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

# The lines of an exception group begin with "|".
_FRAME = r'(?m)^[ |]*File "([^"\n]+)", line (\d+), in (.+)$'
_NOT_THE_USERS = r"(site-packages|dist-packages|lib/python[\d.]+|/pgqueue|<frozen [^>]*)[/\\>]"
# The order matters. An apostrophe within a word is no quote.
_VALUES = (
    (r"\n[\s\S]*", ""),
    (r"""(?<!\w)'[^']*'(?!\w)|"[^"]*\"""", "…"),
    (r"[\w.:+-]*\d[\w.:+-]*", "#"),
)


def place_of(traceback: Column) -> Column:
    """Return the place of an error as `file:line in function`; NULL: the traceback has no frame.

    It is the last frame of the user's own code, or else the last frame.
    """
    frames = F.regexp_extract_all(traceback, F.lit(_FRAME), F.lit(0))
    own = F.filter(frames, lambda frame: ~frame.rlike(_NOT_THE_USERS))
    last = F.coalesce(F.try_element_at(own, F.lit(-1)), F.try_element_at(frames, F.lit(-1)))
    return F.regexp_replace(last, _FRAME, "$1:$2 in $3")


def pattern_of(message: Column) -> Column:
    """Return the first line of a message with "#" for words with digits, and "…" for quotes."""
    for found, replacement in _VALUES:
        message = F.regexp_replace(message, found, replacement)
    return message
