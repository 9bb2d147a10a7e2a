"""Rules of limits: how many messages run at once, and how many start in a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tests.proof.checker.account import Account, Operation
from tests.proof.checker.anomaly import Anomaly

TOLERANCE = 0.001
"""Seconds: the rounding of timestamps."""
UNFLUSHED = 0.6
"""Seconds of starts that a crash of the server may repeat: a claim is not flushed."""


def together(runs: Iterable[Operation], most: int) -> list[Operation]:
    """Return runs that overlap in one moment, if they are more than `most`; else none."""
    changes = [(run.began, 1, run) for run in runs] + [(run.ended, 0, run) for run in runs]
    running: dict[str, Operation] = {}
    for _, begins, run in sorted(changes, key=lambda change: change[:2]):
        if begins:
            running[run.id] = run
            if len(running) > most:
                return list(running.values())
        else:
            running.pop(run.id, None)
    return []


def limits_hold_at_every_moment(account: Account) -> Iterator[Anomaly]:
    """No more messages run at once than each limit allows, and one in a lane.

    Only runs count that certainly had their leases, by `Account.settled_runs`.
    """
    limits = {each["name"]: each["running"] for each in account.doing("limit") if each["running"]}
    groups: dict[str, list[Operation]] = defaultdict(list)
    for number, (_, message) in account.enqueued.items():
        if message["lane"] is not None:
            limits[message["lane"]] = 1
        for name in limits.keys() & {*message["limits"], message["lane"]}:
            groups[name] += account.settled_runs(number)
    for name, runs in groups.items():
        most = limits[name]
        if found := together(runs, most):
            words = f"{len(found)} messages of {name} ran at once, and {most} may"
            yield Anomaly("limit", words, found)


def rates_hold_in_every_window(account: Account) -> Iterator[Anomaly]:
    """No window has more starts than the rate and its burst allow.

    A window that contains a crash of the server may have the starts of 0.6 seconds again.
    """
    crashes = [(c["db_began"], c["db"]) for c in account.doing("fault") if c["crashes"]]
    for limit in account.doing("limit"):
        if not limit["rate"]:
            continue
        starts = sorted(
            (row["claimed_at"], number)
            for number, (_, message) in account.enqueued.items()
            if limit["name"] in message["limits"]
            for row in account.messages.get(number, [])
            if row["claimed_at"] is not None
        )
        yield from _too_fast(account, limit, starts, crashes)


def _too_fast(
    account: Account,
    limit: Operation,
    starts: list[tuple[float, int]],
    crashes: list[tuple[float, float]],
) -> Iterator[Anomaly]:
    rate, burst = limit["rate"], limit["burst"]
    gap = 1 / rate
    allowed_at, first, forgiven = float("-inf"), 0, 0
    for index, (at, number) in enumerate(starts):
        over = [each for each in crashes if each[0] - UNFLUSHED <= at]
        if len(over) > forgiven:
            # The starts before this crash may be unknown to the server.
            forgiven = len(over)
            allowed_at -= UNFLUSHED + gap * burst
        if allowed_at <= at:
            allowed_at, first = at, index
        if allowed_at - at > (burst - 1) * gap + TOLERANCE:
            words = (
                f"{index - first + 1} messages of {limit['name']} started within "
                f"{at - starts[first][0]:.3f} s; the rate is {rate} a second, the burst {burst}"
            )
            rows = [
                row for _, each in (starts[first], (at, number)) for row in account.messages[each]
            ]
            yield Anomaly("rate", words, [limit], rows)
            return
        allowed_at += gap
