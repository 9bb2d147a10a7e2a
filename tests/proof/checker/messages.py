"""Rules of single messages: nothing is lost, nothing is invented, effects happen as promised."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from tests.proof.checker.account import NOTICED, Account, Operation, Row
from tests.proof.checker.anomaly import Anomaly

STORED = 1.0
"""Seconds within which a success is stored."""
GOES_ON = 3.0
"""Seconds after a fault in which its workers have caught up."""


def nothing_committed_is_lost(account: Account) -> Iterator[Anomaly]:
    """A message whose transaction was committed has ended as its kind says, and only once."""
    for number, (enqueue, message) in account.enqueued.items():
        if enqueue.end != "ok":
            continue
        rows = account.messages.get(number, [])
        shown = [enqueue, *account.runs.get(number, [])]
        if not rows:
            yield Anomaly("lost", f"message {number} was committed, and is gone", shown)
        elif len(rows) > 1:
            yield Anomaly("lost", f"message {number} is there {len(rows)} times", [enqueue], rows)
        elif rows[0]["end"] != message["ends"]:
            words = f"message {number} is {rows[0]['end']} in place of {message['ends']}"
            yield Anomaly("lost", words, shown, rows)


def nothing_rolled_back_exists(account: Account) -> Iterator[Anomaly]:
    """A message of a transaction that failed does not exist, and had no effect."""
    for number in account.messages.keys() | account.effects_of_tasks.keys():
        enqueue, _ = account.enqueued.get(number, (None, None))
        if enqueue is not None and enqueue.end != "fail":
            continue
        why = "nobody enqueued it" if enqueue is None else "its transaction was rolled back"
        rows = [*account.messages.get(number, []), *account.effects_of_tasks.get(number, [])]
        shown = [] if enqueue is None else [enqueue]
        yield Anomaly("rolled back", f"message {number} exists, and {why}", shown, rows[:1])


def transactions_are_whole(account: Account) -> Iterator[Anomaly]:
    """Of a transaction with an unknown outcome everything exists, or nothing."""
    for enqueue in account.doing("enqueue"):
        numbers = {message["number"] for message in enqueue["messages"]}
        there = numbers & account.messages.keys()
        if enqueue.end == "unknown" and there and there != numbers:
            number, missing = min(there), min(numbers - there)
            words = f"message {number} exists, and {missing} of the same transaction does not"
            yield Anomaly("half", words, [enqueue], account.messages[number])


def effects_happen_as_promised(account: Account) -> Iterator[Anomaly]:
    """An atomic task that succeeded has one effect, any other one at least one."""
    for number, (enqueue, message) in account.enqueued.items():
        rows = account.messages.get(number, [])
        effects = account.effects_of_tasks.get(number, [])
        has_succeeded = len(rows) == 1 and rows[0]["end"] == "succeeded"
        shown = [enqueue, *account.runs.get(number, [])]
        if message["once"] and len(effects) > 1:
            words = f"atomic message {number} has {len(effects)} effects"
            yield Anomaly("exactly once", words, _of_the_effects(shown, effects), effects)
        elif message["once"] and effects and rows and not has_succeeded:
            words = f"atomic message {number} has an effect, and did not succeed"
            yield Anomaly("exactly once", words, shown, [*rows, *effects])
        elif has_succeeded and not effects:
            rule = "exactly once" if message["once"] else "at least once"
            yield Anomaly(rule, f"message {number} succeeded without its effect", shown, rows)
        elif has_succeeded and not _has_the_effect_of(rows[0]["attempt"], effects, shown, account):
            words = f"attempt {rows[0]['attempt']} of message {number} succeeded without its effect"
            yield Anomaly("at least once", words, shown, [*rows, *effects])


def _has_the_effect_of(
    attempt: int, effects: list[Row], shown: list[Operation], account: Account
) -> bool:
    """Return whether the run that succeeded left an effect, or a promotion may have lost it."""
    return any(row["attempt"] == attempt for row in effects) or any(
        account.may_be_forgotten(run) for run in shown if run.do == "run"
    )


def _of_the_effects(shown: list[Operation], effects: list[Row]) -> list[Operation]:
    attempts = {row["attempt"] for row in effects}
    return [each for each in shown if each.do != "run" or each["attempt"] in attempts]


def each_attempt_runs_once(account: Account) -> Iterator[Anomaly]:
    """Two runs never have the same message and attempt, with two exceptions.

    A claim is not flushed, so a crash of the server may lose it with its number. Then the first
    run began before the crash, and the second run after it. And a run that failed may be repeated
    with its lease, as after a conflict of transactions.
    """
    crashes = [each for each in account.doing("fault") if each["crashes"]]
    for number, runs in account.runs.items():
        last: dict[int, Operation] = {}
        for run in runs:
            before = last.get(run["attempt"])
            last[run["attempt"]] = run
            if before is None or (before.end == "fail" and before.ended <= run.began):
                continue
            if any(before.began <= c.ended and c.began <= run.began for c in crashes):
                continue
            words = f"attempt {run['attempt']} of message {number} ran twice"
            yield Anomaly("doubled run", words, [before, run])


def a_success_is_stored_soon(account: Account) -> Iterator[Anomaly]:
    """A message runs again after a success only if a fault kept the success from being stored.

    The fault was going on when the run ended, or began within a second. A second run that began
    before the success had a fault at its own begin: a zombie, or its lease was lost before.
    """
    faults = list(account.doing("fault"))
    for number, runs in account.runs.items():
        succeeded = [run for run in runs if run.end == "ok"]
        if len({run["attempt"] for run in succeeded}) < 2:
            continue
        for first, again in pairwise(sorted(succeeded, key=lambda run: run.ended)):
            if first["attempt"] == again["attempt"]:
                continue
            moments = [first.ended]
            if again.began < first.ended:
                moments.append(max(first.began, again.began))
            if not any(
                fault.began < moment + STORED and moment - GOES_ON < fault.ended
                for fault in faults
                for moment in moments
            ):
                words = f"message {number} ran again, and no fault was there when it had succeeded"
                yield Anomaly("repeated", words, [first, again])


def counters_are_the_faults_met(account: Account) -> Iterator[Anomaly]:
    """A message was charged for at most one fault in each run that did not succeed.

    If no fault happened while it lived, its failures are the failed runs, and it lost no lease.
    """
    faults = list(account.doing("fault"))
    for number, rows in account.messages.items():
        [row, *more] = rows
        runs = account.runs.get(number, [])
        if more or not runs:
            continue
        failed = sum(run.end == "fail" for run in runs)
        charged, of_runs = row["failures"] + row["lost"], row["attempt"]
        if row["end"] == "succeeded":
            of_runs -= 1
        if charged > of_runs:
            words = f"message {number} was charged {charged} times for {of_runs} runs"
            yield Anomaly("counters", words, runs, rows)
        elif (row["failures"], row["lost"]) != (failed, 0) and not _met_a_fault(runs, faults):
            words = (
                f"message {number} met no fault; it has {row['failures']} failures and "
                f"{row['lost']} lost leases, and {failed} of its runs failed"
            )
            yield Anomaly("counters", words, runs, rows)


def _met_a_fault(runs: list[Operation], faults: list[Operation]) -> bool:
    """Return whether a fault was there while a message had leases, or shortly before.

    The claim is earlier than the run, and a worker may notice a fault some seconds later.
    """
    began = min(run.began for run in runs) - NOTICED
    ended = max(run.began if run.end == "unknown" else run.ended for run in runs) + NOTICED
    return any(fault.began < ended and began < fault.ended for fault in faults)


def no_lease_lives_for_ever(account: Account) -> Iterator[Anomaly]:
    """When nothing goes on any more, no lease, no waiting message and no unread event is left."""
    for row in account.rows("leases"):
        number = row["number"]
        enqueue, _ = account.enqueued.get(number, (None, None))
        shown = [*([enqueue] if enqueue else []), *account.runs.get(number, [])]
        yield Anomaly("lease", f"message {number} is still leased at the end", shown, [row])
    for row in account.rows("waiting"):
        yield Anomaly("waiting", f"{row['what']} is left at the end", [], [row])
