"""The keys of a channel, and what each has."""

from __future__ import annotations

from pgqueue.engine import live_counts
from pgqueue.engine.live_counts import KeySeen
from tests.factories import Connection, enqueue, hold, insert, schedule


def seen(connection: Connection, **bounds: str) -> list[KeySeen]:
    return live_counts.by_key(connection, "mail", bound=100, **bounds)


def test_each_message_is_counted_once_by_what_it_does(connection: Connection) -> None:
    enqueue(connection, 2, channel="mail", key="a")
    insert(connection, channel="mail", key="a", governed=True)
    insert(connection, channel="mail", key="a", governed=True, ordered=True)
    insert(connection, channel="mail", key="a", state="running", ordered=True)
    schedule(connection, channel="mail", key="b")
    hold(connection, channel="mail", key="b", ordered=True)
    insert(connection, channel="mail", key="c", state="dead")
    enqueue(connection, channel="other", key="d")

    found = {each.key: each for each in seen(connection)}

    assert found == {"a": KeySeen("a", 1, 4, 0), "b": KeySeen("b", 0, 0, 2)}
    assert found["a"].size == 5


def test_the_largest_backlog_comes_first(connection: Connection) -> None:
    for key, count in (("a", 1), ("b", 3), ("", 2)):
        enqueue(connection, count, channel="mail", key=key)

    assert [each.key for each in seen(connection)] == ["b", "", "a"]
    assert [each.key for each in seen(connection, first="\x01")] == ["b", "a"]
    assert [each.key for each in seen(connection, first="a", last="a")] == ["a"]


def test_a_bound_cuts_off_the_last_keys(connection: Connection) -> None:
    for key in ("a", "b", "c"):
        enqueue(connection, 2, channel="mail", key=key)

    found = live_counts.by_key(connection, "mail", bound=3)

    assert found == [KeySeen("a", 0, 2, 0), KeySeen("b", 0, 1, 0)]
