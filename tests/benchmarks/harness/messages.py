"""Fill and empty the queue by SQL, so that a benchmark begins the same way each time."""

from datetime import datetime
from typing import Any

from pgqueue.database.sql_files import load
from testproject.shop.tasks import nothing
from tests.benchmarks.harness.session import ask, session, settle_down

SQL = load(__name__)
CHANNEL = nothing.queue_name
# In the midst of the others, which are hashes.
DEEP = "8"


def empty() -> None:
    """Remove all messages and their history."""
    session().execute(SQL["empty"])
    settle_down()


def store(count: int, *, task: str = nothing.name) -> None:
    """Have exactly `count` messages that do nothing, all in one key."""
    _store("store", count, task=task)


def store_in_keys(count: int) -> int:
    """Have exactly `count` of them in many keys, one of which is deep; return how many keys.

    With 1 300 000: 10 in each of 100 000, and 300 000 in the deep one.
    """
    keys = max(count // 13, 1)
    _store("store_in_keys", count, keys=keys, deep=DEEP)
    return keys + 1


def store_evenly(count: int, *, keys: int, governed: bool = False, ordered: bool = False) -> None:
    """Have exactly `count` messages, as many in each of `keys` keys, which policies may govern.

    The policies are to be set after this, and the bells that a producer would ring are rung.
    """
    _store("store_evenly", count, keys=keys, governed=governed, ordered=ordered)
    if governed:
        session().execute(SQL["ring"], {"channel": CHANNEL, "keys": keys})


def limit(
    *,
    scope: str,
    max_running: int | None = None,
    rate: float | None = None,
    burst: int | None = None,
) -> None:
    """Set a policy for the messages' channel, or for each of its keys."""
    session().execute(
        SQL["limit"],
        {
            "channel": CHANNEL,
            "scope": scope,
            "max_running": max_running,
            "rate": rate,
            "burst": burst,
        },
    )


def started() -> tuple[int, float]:
    """Return how many were started, and in how many seconds."""
    count, seconds = ask(SQL["started"])
    return count, seconds


def ended() -> tuple[int, datetime | None]:
    """Return how many succeeded, and when the first of them was claimed."""
    count, claimed_at = ask(SQL["ended"])
    return count, claimed_at


def _store(statement: str, count: int, **parameters: Any) -> None:
    common = {
        "channel": CHANNEL,
        "task": nothing.name,
        "payload": nothing.codec.encode((), {}),
        "count": count,
    }
    session().execute(SQL["empty"])
    session().execute(SQL[statement], {**common, **parameters})
    settle_down()
