"""Values of any kind, for options that can be given anything.

`tests/test_fuzz.py` and `tests/test_fuzz_commands.py` have tables of options: add each new option.
`tests/test_fuzz_received.py` has bytes of other systems: the WAL, headers, signatures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from django.db import transaction
from hypothesis import HealthCheck
from hypothesis import settings as profile
from hypothesis import strategies as st

from pgqueue.database.migration_check import NotMigrated

EXAMPLES = profile(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

NUMBERS = st.one_of(
    st.integers(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from([2**31 - 1, 2**31, 2**63, -(2**31), 10**400, math.nan, math.inf, -math.inf]),
    st.sampled_from([1e-320, 5e-324, 1e308, 0.1, -0.0, 1e15]),
)
TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(codec=None)),  # with lone surrogates
    st.sampled_from(["", " ", "\x00", "a\x00b", "\ud800", "x" * 2000, "é" * 501, "default", "%s"]),
)


def nested(depth: int) -> list[Any]:
    """Return lists in lists."""
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


MOMENTS = st.one_of(
    st.datetimes(),
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(
        [
            datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
            datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        ]
    ),
)
ANYTHING = st.one_of(
    *(st.none(), st.booleans(), NUMBERS, TEXTS, MOMENTS, st.timedeltas(), st.binary()),
    *(st.lists(NUMBERS, max_size=3), st.dictionaries(TEXTS, NUMBERS, max_size=2)),
    st.sampled_from([Decimal(3), object(), len, int, [[]], {"a": object()}, {1: 2}, {"a": "\x00"}]),
)


class _RolledBack(Exception):
    pass


def attempt(verb: Callable[[], Any], *ours: type[BaseException]) -> bool:
    """Return whether it was accepted; any other error than ours fails the test."""
    try:
        with transaction.atomic():
            verb()
            raise _RolledBack
    except _RolledBack:
        return True
    except NotMigrated:
        raise  # PostgreSQL knew no such function: a value has the wrong type
    except ours:
        return False
