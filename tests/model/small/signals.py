"""Waits and signals, as `settle.suspend`, `engine/waking.sql` and the functions of signals.

A run takes a signal for each of its waits, one after the other. If there is none, the run ends: a
later statement stores the wait, and rings. A signal is stored with its bell, in one transaction.
The router takes the bells, and looks in a later statement. The end of a wait's time wakes the
message, too. A worker may crash, or lose its lease while it lives. An operator may have a message
locked while the router looks; then the duty finds the message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

READY, RUNNING, HELD, ENDED = "ready", "running", "held", "ended"


class WaitingRun(NamedTuple):
    """A run in a worker.

    Attributes:
        message: its number.
        attempt: its fence.
        found_none: whether it looked for a signal in vain, and is about to suspend.
    """

    message: int
    attempt: int
    found_none: bool = False


class SignalState(NamedTuple):
    """The committed rows, the router, and the runs.

    Attributes:
        messages: the state of each message.
        attempts: how often each was claimed.
        done: how many waits of each have ended.
        waiting: the next wait of each: 0 (not stored), 1 (stored), or 2 (its time is over).
        signals: how many signals of each no wait has taken.
        sent: how many signals of each were sent.
        bells: the messages for which bells are there.
        rung: the messages whose bells an open transaction of the router has taken; None: no router.
        woken: the messages that this transaction wakes; None: it has not looked yet.
        locked: a message that an operator has locked; -1: none.
        missed: messages that the router left, since they were locked.
        runs: of all workers.
        crashes, zombies, timeouts, locks: how many may still come.
    """

    messages: tuple[str, ...]
    attempts: tuple[int, ...]
    done: tuple[int, ...]
    waiting: tuple[int, ...]
    signals: tuple[int, ...]
    sent: tuple[int, ...]
    bells: tuple[int, ...]
    rung: tuple[int, ...] | None
    woken: tuple[int, ...] | None
    locked: int
    missed: tuple[int, ...]
    runs: tuple[WaitingRun, ...]
    crashes: int
    zombies: int
    timeouts: int
    locks: int


@dataclass(frozen=True)
class Signals:
    """The model.

    Attributes:
        messages: how many there are.
        waits: of each message, and as many signals are sent to it.
        workers: each has one run at a time.
        fault: the name of a planted fault; "": none.
    """

    messages: int = 1
    waits: int = 2
    workers: int = 2
    crashes: int = 1
    zombies: int = 1
    timeouts: int = 1
    locks: int = 1
    fault: str = ""

    def first(self) -> SignalState:
        """Return the state in which each message is ready for the first time."""
        none, count = (0,) * self.messages, self.messages
        return SignalState(
            (READY,) * count, none, none, none, none, none, (), None, None, -1, (), (),
            self.crashes, self.zombies, self.timeouts, self.locks,
        )  # fmt: skip

    # Transitions.

    def steps(self, state: SignalState) -> Iterator[tuple[str, SignalState]]:
        """Return all transitions."""
        for message in range(self.messages):
            yield from self._of_message(state, message)
        for run in dict.fromkeys(state.runs):
            yield from self._of_run(state, run)
        yield from self._route(state)
        if state.locked >= 0:
            yield f"unlock {state.locked}", state._replace(locked=-1)

    def _of_message(self, state: SignalState, message: int) -> Iterator[tuple[str, SignalState]]:
        condition, is_free = state.messages[message], state.locked != message
        is_woken = message in (state.woken or ())
        if state.sent[message] < self.waits:
            sent = _added(state, message, sent=1, signals=1)
            rung = sent if self.fault == "a signal rings no bell" else _rung(sent, message)
            # A signal to a message that has ended is not stored.
            yield (
                f"signal {message}",
                _added(state, message, sent=1) if condition == ENDED else rung,
            )
        if condition == READY and is_free and len(state.runs) < self.workers:
            claimed = _added(_became(state, message, RUNNING), message, attempts=1)
            run = WaitingRun(message, claimed.attempts[message])
            yield f"claim {message}", claimed._replace(runs=tuple(sorted((*state.runs, run))))
        if condition == RUNNING and is_free:
            holder = [r for r in state.runs if (r.message, r.attempt) == _fence(state, message)]
            ready = _became(state, message, READY)
            if not holder:
                yield f"rescue {message}", ready
            elif state.zombies:
                yield f"lose the lease of {message}", ready._replace(zombies=state.zombies - 1)
        if condition == HELD and is_free and not is_woken and state.timeouts:
            over = _became(state, message, READY)._replace(timeouts=state.timeouts - 1)
            yield f"promote {message}", _waits(over, message, 2)
        if state.locks and state.locked < 0 and not is_woken:
            yield f"lock {message}", state._replace(locks=state.locks - 1, locked=message)
        if message in state.missed and message not in state.bells:
            missed = tuple(each for each in state.missed if each != message)
            yield (
                f"ring for {message}, which was missed",
                _rung(state, message)._replace(missed=missed),
            )

    def _of_run(self, state: SignalState, run: WaitingRun) -> Iterator[tuple[str, SignalState]]:
        message = run.message
        rest = list(state.runs)
        rest.remove(run)
        over = state._replace(runs=tuple(rest))
        if state.crashes:
            yield f"crash in a run of {message}", over._replace(crashes=state.crashes - 1)
        if state.locked == message:
            return  # its statements wait
        has_lease = state.messages[message] == RUNNING and _fence(state, message) == run[:2]
        if not has_lease and self.fault != "no fence":
            yield f"find the lease of {message} lost", over
        elif run.found_none:
            yield f"suspend {message}", self._suspended(over, message)
        elif state.done[message] == self.waits:
            yield f"complete {message}", _became(over, message, ENDED)
        elif state.signals[message]:
            taken = _wait_ended(_added(state, message, signals=-1), message)
            yield f"take a signal of {message}", taken
        elif state.waiting[message] == 2:
            yield f"end the wait of {message} without a signal", _wait_ended(state, message)
        else:
            looked = run._replace(found_none=True)
            yield f"find no signal of {message}", over._replace(runs=tuple(sorted((*rest, looked))))

    def _suspended(self, state: SignalState, message: int) -> SignalState:
        held = _waits(_became(state, message, HELD), message, 1)
        return held if self.fault == "a wait rings no bell" else _rung(held, message)

    def _route(self, state: SignalState) -> Iterator[tuple[str, SignalState]]:
        if state.rung is None:
            if state.bells:
                taken = state._replace(bells=(), rung=state.bells)
                yield f"take the bells of {state.bells}", taken
            return
        if state.woken is None:
            yield "look for signals", self._looked(state)
        else:
            ended = state._replace(rung=None, woken=None)
            if self.fault == "the router takes bells after its look":
                ended = ended._replace(bells=())
            for each in state.woken:
                ended = _became(ended, each, READY)
            yield f"commit, and wake {state.woken}", ended
        if state.crashes:
            bells = tuple(sorted({*state.bells, *state.rung}))
            back = state._replace(rung=None, woken=None, bells=bells, crashes=state.crashes - 1)
            yield "crash in the router", back

    def _looked(self, state: SignalState) -> SignalState:
        found = [
            each
            for each in state.rung or ()
            if state.messages[each] == HELD and state.waiting[each] and state.signals[each]
        ]
        missed = {each for each in found if each == state.locked}
        woken = tuple(each for each in found if each not in missed)
        return state._replace(woken=woken, missed=tuple(sorted({*state.missed, *missed})))

    # Invariants.

    def no_signal_is_missed(self, state: SignalState) -> bool:
        """A message that waits has no signal, unless a bell is there or the duty finds it."""
        about = {*state.bells, *(state.rung or ()), *state.missed}
        return not any(
            state.messages[each] == HELD and state.signals[each] and each not in about
            for each in range(self.messages)
        )

    def each_signal_ends_one_wait(self, state: SignalState) -> bool:
        """No wait has ended without a signal or the end of its time."""
        return all(
            state.done[each]
            <= state.sent[each] - state.signals[each] + self.timeouts - state.timeouts
            for each in range(self.messages)
        )

    def ended_messages_are_through(self, state: SignalState) -> bool:
        """A message ends after its last wait, and only then."""
        return all(
            state.done[each] == self.waits if state.messages[each] == ENDED
            else state.done[each] <= self.waits
            for each in range(self.messages)
        )  # fmt: skip

    def only_the_lease_writes(self, state: SignalState) -> bool:
        """A message with a claim that is held runs."""
        return not any(
            (run.message, run.attempt) == _fence(state, run.message)
            and state.messages[run.message] in (HELD, ENDED)
            for run in state.runs
        )

    def all_have_ended(self, state: SignalState) -> bool:
        """When nothing can happen any more, each message has ended."""
        return all(each == ENDED for each in state.messages)


def _fence(state: SignalState, message: int) -> tuple[int, int]:
    return message, state.attempts[message]


def _became(state: SignalState, message: int, condition: str) -> SignalState:
    messages = (*state.messages[:message], condition, *state.messages[message + 1 :])
    return state._replace(messages=messages)


def _added(state: SignalState, message: int, **numbers: int) -> SignalState:
    for name, number in numbers.items():
        values = list(getattr(state, name))
        values[message] += number
        state = state._replace(**{name: tuple(values)})
    return state


def _wait_ended(state: SignalState, message: int) -> SignalState:
    return _waits(_added(state, message, done=1), message, 0)


def _waits(state: SignalState, message: int, how: int) -> SignalState:
    return state._replace(waiting=(*state.waiting[:message], how, *state.waiting[message + 1 :]))


def _rung(state: SignalState, message: int) -> SignalState:
    return state._replace(bells=tuple(sorted({*state.bells, message})))
