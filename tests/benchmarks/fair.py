"""Many keys, one of them very deep: what the turns cost, and whether each key gets its own.

Of 13 messages 3 are in the deep key and 10 go round the shallow ones, each of which has 10:
with 1 300 000 messages, 100 001 keys and 300 000 in the deep one. One process and connection
claims by `Turns` and settles each batch at once (the engine's loop: no threads, no tasks).

    per_s                   while shallow keys have messages: what is left of the deep key
                            then is a queue of one key, and faster
    one_key_per_s           the same loop, as many messages, all in one key
    ceiling_by_turns_per_s  the bare loop of `harness/ceiling.py` on one key
    deep_turns_per_round    messages of the deep key for one of each shallow key: 1 is fair,
                            and first come first served would be 30 000
    p99_wait_rounds         between two messages of a shallow key, and before its first, how
                            many others were claimed, in rounds of one message for each key
    of_one_key              per_s ÷ one_key_per_s
    of_ceiling              per_s ÷ ceiling_by_turns_per_s
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import quantiles

from pgqueue.database.connections import connect
from pgqueue.engine import settle
from pgqueue.engine.settle import Done
from tests.benchmarks.harness import ceiling
from tests.benchmarks.harness.messages import DEEP, store, store_in_keys
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.claims import FreeClaims

SIZES = (1_300_000,)
BATCH = 500
LEASE = timedelta(seconds=30)


def measure(*, messages: int, rounds: int) -> Report:
    """Compare the engine's loop on many keys and on one."""
    return repeat("fair", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    lanes = store_in_keys(count)
    many = _loop()
    store(count)
    one = _loop()
    store(count)
    bare = ceiling.by_turns(count)

    # The turns end with the last message of a shallow key.
    keys = many.keys
    end = max(position for position, key in enumerate(keys) if key != DEEP) + 1
    per_s = many.per_s(end)
    one_key = one.per_s(count)
    return Round(
        figures={
            "per_s": per_s,
            "one_key_per_s": one_key,
            "ceiling_by_turns_per_s": bare,
            "deep_turns_per_round": _deep_turns(keys[:end]),
            "p99_wait_rounds": _p99_wait(keys[:end]) / lanes,
        },
        ratios={"of_one_key": per_s / one_key, "of_ceiling": per_s / bare},
    )


@dataclass(frozen=True)
class Loop:
    """What was claimed: the keys of each batch, and the seconds until it was settled."""

    batches: list[list[str]]
    settled: list[float]

    @property
    def keys(self) -> list[str]:
        """The messages' keys, in the order they were claimed."""
        return [key for batch in self.batches for key in batch]

    def per_s(self, count: int) -> float:
        """Return the rate of the batches that hold the first `count` messages."""
        done = 0
        for batch, settled in zip(self.batches, self.settled, strict=True):
            done += len(batch)
            if done >= count:
                return done / settled
        raise RuntimeError(f"The loop settled {done} of {count} messages.")


def _loop() -> Loop:
    loop = Loop([], [])
    with connect("default", name="engine") as connection:
        turns = FreeClaims(connection)
        began = time.monotonic()
        while claims := turns.claim(BATCH):
            settle.complete(connection, [Done(each, None, 0.0, 0.0) for each in claims])
            loop.batches.append([each.key for each in claims])
            loop.settled.append(time.monotonic() - began)
    return loop


def _deep_turns(keys: Sequence[str]) -> float:
    """Return how many messages the deep key had for one of the busiest shallow key."""
    turns = Counter(keys)
    deep = turns.pop(DEEP, 0)
    return deep / max(turns.values())


def _p99_wait(keys: Sequence[str]) -> float:
    """Return how many messages of others a shallow key's next one had to let pass."""
    last: dict[str, int] = {}
    waits = []
    for position, key in enumerate(keys):
        waits.append(position - last.get(key, -1))
        last[key] = position
    return quantiles((wait for wait, key in zip(waits, keys, strict=True) if key != DEEP), n=100)[
        98
    ]
