"""What limits cost: on each of many keys, where nearly all have reached theirs, and on a channel.

per_s                one `runworker`, 10 000 keys of which each may run 2 at once
free_per_s           the same messages without a policy
of_free              per_s ÷ free_per_s
saturated_claim_ms   the engine claims 100 messages where 99.9 % of 100 000 lanes are
                     saturated, 100 of them have room for one, and all have work
rated_per_s          starts a second of one channel that may have RATE
of_rate              rated_per_s ÷ RATE: above 1 would be a broken limit
"""

from __future__ import annotations

import time
from datetime import timedelta
from statistics import median

from pgqueue.database.connections import connect
from pgqueue.engine import settle
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.messages import CHANNEL, limit, started, store_evenly
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import session, settle_down
from tests.claims import GovernedClaims

SIZES = (100_000,)
KEYS = 10_000
LANES = 100_000
OPEN = 100
CLAIMS = 60
RATE = 2_000
LEASE = timedelta(minutes=10)


def measure(*, messages: int, rounds: int) -> Report:
    """Compare governed lanes with free ones, and time claims beside saturated ones."""
    return repeat("governed", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    keys = min(KEYS, count)
    store_evenly(count, keys=keys)
    free = drain(count).per_s
    store_evenly(count, keys=keys, governed=True)
    limit(scope="each", max_running=2)
    governed = drain(count).per_s
    claim_ms = _saturated_claim_ms(min(LANES, count))
    rated = _rated_per_s(min(count, 5 * RATE))
    return Round(
        figures={
            "per_s": governed,
            "free_per_s": free,
            "saturated_claim_ms": claim_ms,
            "rated_per_s": rated,
        },
        ratios={"of_free": governed / free, "of_rate": rated / RATE},
    )


def _saturated_claim_ms(lanes: int) -> float:
    """Return the median of what it takes to claim from the few lanes that have room."""
    store_evenly(2 * lanes, keys=lanes, governed=True)
    limit(scope="each", max_running=1)
    with connect("default", name="engine") as connection:
        rounds = GovernedClaims(connection, lease=LEASE)
        running = []
        while claims := rounds.claim(1000):
            running += claims
        settle_down()
        took = []
        for n in range(min(CLAIMS, len(running) // OPEN)):
            # Their places are free, and this takes the bells.
            settle.release(connection, running[n * OPEN : (n + 1) * OPEN])
            rounds.claim(0)
            began = time.monotonic()
            claims = rounds.claim(OPEN)
            took.append((time.monotonic() - began) * 1000)
            if len(claims) != min(OPEN, lanes):
                raise RuntimeError(f"{len(claims)} lanes had room, and not {OPEN}.")
    return median(took)


def _rated_per_s(count: int) -> float:
    """Return how many a second were started of a channel whose rate is bounded."""
    store_evenly(count, keys=1, governed=True)
    limit(scope="channel", rate=RATE)
    drain(count)
    began, seconds = started()
    session().execute("DELETE FROM pgqueue_policy WHERE channel = %s", [CHANNEL])
    return began / max(seconds, 0.001)
