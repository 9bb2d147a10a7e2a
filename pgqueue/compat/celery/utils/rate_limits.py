"""Rate limits as Celery writes them: "10/m"."""

from __future__ import annotations

import re
from typing import Any

from pgqueue.exceptions import InvalidTask
from pgqueue.values.error_words import shown

RATE = re.compile(r"(\d+(?:\.\d+)?)(?:/([smh]))?")
PER = {"s": 1.0, "m": 60.0, "h": 3600.0}


def rate_of(limit: Any) -> tuple[float, float] | None:
    """Return the number of starts and their period in seconds; None: no limit.

    Raises:
        InvalidTask: the value is no rate limit.
    """
    if limit is None or limit == 0 or limit == "":
        return None
    found = RATE.fullmatch(str(limit)) if not isinstance(limit, bool) else None
    if found is None or not float(found[1]):
        raise InvalidTask(
            f'rate_limit={shown(limit)}: it must have the form "10/s", "10/m" or "10/h".'
        )
    return float(found[1]), PER[found[2] or "s"]
