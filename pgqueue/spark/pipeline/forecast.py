"""The expected backlog: the trend of the days, and the usual backlog at a time of day.

Both are medians, so that a single bad hour does not bend them (Theil and Sen's slope). The
residuals of the past give the band (Hyndman and Athanasopoulos: Forecasting, principles and
practice, chapter 5).
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from pgqueue.spark.pipeline.material import Made, Material

if TYPE_CHECKING:
    from pandas import DataFrame as Pandas

DAY = 86_400
LEAST = 3
"""The fewest days of the past for a forecast."""
WIDEST = 6 * 3_600
"""The most seconds of a bucket: a day has too few wider buckets."""
BAND = (0.1, 0.9)
"""The quantiles of the residuals."""
COLUMNS = ("at", "kind", "backlog", "low", "high")


def make_forecast(given: Material) -> Made:
    """Make the table forecast; for an export an empty one, since its backlog is unknown."""
    if not given.has_live:
        return Made({"forecast": nothing()})
    return Made({"forecast": forecast(given.tables["over_time"], given.period.width)})


def forecast(over_time: Pandas, width: int) -> Pandas:
    """Return the past and the day after it; no rows if the past is too short.

    Args:
        over_time: the table of this name.
        width: the width of its buckets, in seconds.
    """
    import pandas

    slots = DAY // width
    backlog = over_time["backlog"].to_numpy(np.float64)
    if width > WIDEST or len(backlog) < LEAST * slots:
        return nothing()
    index = np.arange(len(backlog))
    slope = _slope(backlog, slots)
    level = backlog - slope * index
    usual = np.array([np.median(level[slot::slots]) for slot in range(slots)])
    rest = level - usual[index % slots]
    low, high = np.quantile(rest, BAND)
    ahead = np.arange(len(backlog), len(backlog) + slots)
    expected = usual[ahead % slots] + slope * ahead
    last = over_time["at"].iloc[-1]
    past = pandas.DataFrame({"at": over_time["at"], "kind": "past", "backlog": backlog})
    to_come = pandas.DataFrame(
        {
            "at": [last + timedelta(seconds=width * each) for each in range(1, slots + 1)],
            "kind": "forecast",
            "backlog": np.maximum(expected, 0),
            "low": np.maximum(expected + low, 0),
            "high": np.maximum(expected + high, 0),
        }
    )
    return pandas.concat([past, to_come], ignore_index=True)[list(COLUMNS)]


def nothing() -> Pandas:
    """Return an empty table."""
    import pandas

    return pandas.DataFrame(columns=list(COLUMNS))


def _slope(values: np.ndarray, slots: int) -> float:
    """Return the median change from one bucket to the next, from buckets that lie days apart."""
    changes = [
        (values[days * slots :] - values[: -days * slots]) / (days * slots)
        for days in range(1, len(values) // slots)
    ]
    return float(np.median(np.concatenate(changes))) if changes else 0.0
