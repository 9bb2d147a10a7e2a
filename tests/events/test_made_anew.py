"""Groups that are deleted and made again while they are read for; handlers that can't be."""

from __future__ import annotations

from typing import Any

import pytest

from pgqueue import InvalidGroup, consumer, publish_many
from pgqueue.engine import groups as engine
from pgqueue.events import consumers, groups
from pgqueue.events.consuming import GroupReader


@pytest.fixture(autouse=True)
def _no_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "_consumers", {})


def test_a_reader_goes_by_the_partitions_that_its_group_has_now() -> None:
    handled: list[int] = []
    billing = consumer("billing", partitions=1)(lambda event: handled.append(event.position))
    reader = GroupReader(billing)
    reader.tick()
    groups.delete("billing")
    groups.make("billing", partitions=5)
    publish_many([("order.paid", None, f"order:{number}") for number in range(50)])

    for _ in range(3):
        reader._rebalance_at = 0.0
        reader._held.clear()  # as its leases' thread has it do
        reader.tick()
    reader.finish()

    assert sorted(handled) == list(range(1, 51))


def test_a_reader_goes_by_those_that_it_has_just_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[int] = []
    billing = consumer("billing", partitions=5)(lambda event: handled.append(event.position))
    reader = GroupReader(billing)
    take = engine.take

    def take_what_was_made_anew(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(engine, "take", take)
        groups.delete("billing")
        groups.make("billing", partitions=1, start=0)
        return take(*args, **options)

    publish_many([("order.paid", None, f"order:{number}") for number in range(50)])
    monkeypatch.setattr(engine, "take", take_what_was_made_anew)
    reader.tick()
    reader.finish()

    assert sorted(handled) == list(range(1, 51))


def test_a_handler_that_is_async_is_refused() -> None:
    async def bill(event: Any) -> None: ...

    with pytest.raises(InvalidGroup, match="async_to_sync"):
        consumer("billing")(bill)
