"""Bells, the router and the governed claim, as `engine/route.sql` and `engine/claim_governed.sql`.

A transaction of a producer is one transition: before its commit nobody sees it, and it locks
nothing. The router and the claim have one transition for each statement, and one for the commit. A
worker may crash between any two of them; then its transaction is rolled back, and its messages are
rescued. A lease may also end while its worker lives: a zombie.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

ABSENT, READY, RUNNING, ENDED, STOLEN = "absent", "ready", "running", "ended", "stolen"
IDLE, RUNNABLE, SATURATED = "idle", "runnable", "saturated"

Run = tuple[int, bool]
"""The number of a message, and whether the run has its lease: the fence of the code."""


class Doing(NamedTuple):
    """The transaction of a worker.

    Attributes:
        what: "nothing", "route" (bells are taken), "look" (a claim has begun), "lock" (it has the
            lane), "claim" (it has taken messages).
        lane: of the claim.
        messages: taken by the claim.
        becomes: the state that the claim gives its lane.
        rung: the lanes of the bells that the router has taken, and has not marked yet.
        marked: the lanes that the router has marked, and locked.
        saw: the state of the messages at the begin of a claim; only with a fault.
    """

    what: str = "nothing"
    lane: int = -1
    messages: tuple[int, ...] = ()
    becomes: str = ""
    rung: tuple[int, ...] = ()
    marked: tuple[int, ...] = ()
    saw: tuple[str, ...] = ()


class ModelWorker(NamedTuple):
    """A worker: its transaction, and the runs of which it believes that it has the leases."""

    doing: Doing = Doing()
    runs: tuple[Run, ...] = ()


class GovernedState(NamedTuple):
    """The committed rows, and the workers.

    Attributes:
        messages: the state of each message.
        lanes: the state of each lane.
        bells: the lanes for which committed bells are there.
        cancelling: the message that an open transaction cancels; -1: none.
        workers: in any order: they are alike.
        crashes, zombies, cancels: how many may still come.
    """

    messages: tuple[str, ...]
    lanes: tuple[str, ...]
    bells: tuple[int, ...]
    cancelling: int
    workers: tuple[ModelWorker, ...]
    crashes: int
    zombies: int
    cancels: int


@dataclass(frozen=True)
class Governed:
    """The model.

    Attributes:
        lane_of: the lane of each message.
        max_running: of each lane.
        gate: the limit of the channel; 0: none.
        fault: the name of a planted fault; "": none.
    """

    lane_of: tuple[int, ...] = (0, 0, 1)
    max_running: int = 1
    gate: int = 0
    workers: int = 2
    crashes: int = 1
    zombies: int = 1
    cancels: int = 1
    fault: str = ""

    def first(self) -> GovernedState:
        """Return the state in which nothing was enqueued."""
        count = len(self.lane_of)
        return GovernedState(
            (ABSENT,) * count,
            (IDLE,) * (max(self.lane_of) + 1),
            (),
            -1,
            (ModelWorker(),) * self.workers,
            self.crashes,
            self.zombies,
            self.cancels,
        )

    # Transitions.

    def steps(self, state: GovernedState) -> Iterator[tuple[str, GovernedState]]:
        """Return all transitions."""
        yield from self._enqueue(state)
        yield from self._cancel(state)
        yield from self._rescue(state)
        seen = set()
        for number, worker in enumerate(state.workers):
            if worker in seen:
                continue  # another one in the same condition does the same
            seen.add(worker)
            yield from self._of_worker(state, number, worker)

    def _enqueue(self, state: GovernedState) -> Iterator[tuple[str, GovernedState]]:
        seen = set()
        for message, condition in enumerate(state.messages):
            # The messages of a lane are alike: they come in their order.
            if condition == ABSENT and self.lane_of[message] not in seen:
                seen.add(self.lane_of[message])
                yield f"enqueue {message}", self._rung(_became(state, message, READY), message)

    def _cancel(self, state: GovernedState) -> Iterator[tuple[str, GovernedState]]:
        if state.cancelling >= 0:
            message, free = state.cancelling, state._replace(cancelling=-1)
            yield f"cancel {message}", self._rung(_became(free, message, ENDED), message)
            yield f"roll back the cancel of {message}", free
        elif state.cancels:
            for message, condition in enumerate(state.messages):
                if condition == READY and not _is_taken(state, message):
                    less = state._replace(cancels=state.cancels - 1)
                    yield f"begin to cancel {message}", less._replace(cancelling=message)

    def _rescue(self, state: GovernedState) -> Iterator[tuple[str, GovernedState]]:
        for message, condition in enumerate(state.messages):
            if condition != RUNNING:
                continue
            ready = self._rung(_fenced_off(_became(state, message, READY), message), message)
            if not any((message, True) in each.runs for each in state.workers):
                yield f"rescue {message}", ready
            elif state.zombies:
                yield f"lose the lease of {message}", ready._replace(zombies=state.zombies - 1)

    def _of_worker(
        self, state: GovernedState, number: int, worker: ModelWorker
    ) -> Iterator[tuple[str, GovernedState]]:
        doing = worker.doing

        def then(now: GovernedState, doing: Doing, runs: tuple[Run, ...]) -> GovernedState:
            workers = list(now.workers)
            workers[number] = ModelWorker(doing, runs)
            return _in_order(now._replace(workers=tuple(workers)))

        if state.crashes and (doing.what != "nothing" or worker.runs):
            bells = tuple(sorted({*state.bells, *doing.rung, *doing.marked}))
            left = state._replace(crashes=state.crashes - 1, bells=bells)
            yield f"crash while it does {doing.what}", then(left, Doing(), ())
        if doing.what == "nothing":
            for run in worker.runs:
                rest = tuple(each for each in worker.runs if each != run)
                yield f"settle {run[0]}", then(self._settled(state, run), doing, rest)
            for name, now, begun in self._begin(state):
                yield name, then(now, begun, worker.runs)
        elif doing.what == "route":
            for name, now, gone_on in self._route(state, doing):
                yield name, then(now, gone_on, worker.runs)
        elif doing.what in ("look", "lock"):
            for name, now, gone_on in self._take(state, doing):
                yield name, then(now, gone_on, worker.runs)
        else:
            now, runs = self._claimed(state, doing)
            yield f"commit the claim of lane {doing.lane}", then(now, Doing(), worker.runs + runs)

    def _settled(self, state: GovernedState, run: Run) -> GovernedState:
        """The fence: the message runs, in this attempt."""
        message, has_lease = run
        if has_lease:
            ended = _became(state, message, ENDED)
            return ended if self.fault == "settle rings no bell" else self._rung(ended, message)
        if self.fault == "no fence" and state.messages[message] == RUNNING:
            return self._rung(_became(state, message, STOLEN), message)
        return state

    def _begin(self, state: GovernedState) -> Iterator[tuple[str, GovernedState, Doing]]:
        """Begin to route, or to claim."""
        if state.bells and not any(each.doing.what == "route" for each in state.workers):
            yield (
                f"take the bells of {state.bells}",
                state._replace(bells=()),
                Doing("route", rung=state.bells),
            )
        if self.gate and any(each.doing.what in ("lock", "claim") for each in state.workers):
            return  # another worker has the gate
        for lane, condition in enumerate(state.lanes):
            if self.fault == "count in the statement that locks":
                if condition == RUNNABLE:
                    yield f"look at lane {lane}", state, Doing("look", lane, saw=state.messages)
            elif condition == RUNNABLE and not _is_locked(state, lane):
                yield f"lock lane {lane}", state, Doing("lock", lane)

    def _route(
        self, state: GovernedState, doing: Doing
    ) -> Iterator[tuple[str, GovernedState, Doing]]:
        """Mark lanes in a later statement, each behind its lock; then commit."""
        if not doing.rung:
            lanes = tuple(
                RUNNABLE if lane in doing.marked else each for lane, each in enumerate(state.lanes)
            )
            yield "commit the marks", state._replace(lanes=lanes), Doing()
            return
        lane, *rest = doing.rung
        marked = doing._replace(rung=tuple(rest), marked=(*doing.marked, lane))
        if self.fault == "mark only lanes that are not runnable" and state.lanes[lane] == RUNNABLE:
            yield f"leave out lane {lane}", state, doing._replace(rung=tuple(rest))
        elif not _is_locked(state, lane):
            yield f"mark lane {lane}", state, marked

    def _take(
        self, state: GovernedState, doing: Doing
    ) -> Iterator[tuple[str, GovernedState, Doing]]:
        """Count, and take messages of the locked lane."""
        lane, seen = doing.lane, doing.saw or state.messages
        if doing.what == "look" and (state.lanes[lane] != RUNNABLE or _is_locked(state, lane)):
            yield f"find lane {lane} locked", state, Doing()
            return
        of_lane = [each for each, its in enumerate(self.lane_of) if its == lane]
        ready = [each for each in of_lane if seen[each] == READY]
        free = [each for each in ready if each != state.cancelling]
        free = [each for each in free if state.messages[each] == READY]
        places = self.max_running - sum(seen[each] == RUNNING for each in of_lane)
        gate = self.gate - seen.count(RUNNING) if self.gate else len(ready)
        taken = tuple(free[: max(0, min(places, gate))])
        left = free if self.fault == "idle means that none can be locked" else ready
        if places <= len(taken):
            becomes = SATURATED
        else:
            becomes = RUNNABLE if set(left) - set(taken) else IDLE
        yield f"take {taken} of lane {lane}", state, Doing("claim", lane, taken, becomes)

    def _claimed(self, state: GovernedState, doing: Doing) -> tuple[GovernedState, tuple[Run, ...]]:
        messages = list(state.messages)
        for each in doing.messages:
            messages[each] = RUNNING
        lanes = list(state.lanes)
        lanes[doing.lane] = doing.becomes
        now = state._replace(messages=tuple(messages), lanes=tuple(lanes))
        return now, tuple((each, True) for each in doing.messages)

    def _rung(self, state: GovernedState, message: int) -> GovernedState:
        return state._replace(bells=tuple(sorted({*state.bells, self.lane_of[message]})))

    # Invariants.

    def limits_hold(self, state: GovernedState) -> bool:
        """No lane, and no channel, runs more messages than its limit."""
        running = [
            lane for each, lane in enumerate(self.lane_of) if state.messages[each] == RUNNING
        ]
        in_lanes = all(running.count(lane) <= self.max_running for lane in set(running))
        return in_lanes and (not self.gate or len(running) <= self.gate)

    def only_the_lease_settles(self, state: GovernedState) -> bool:
        """No message was ended by a run that had lost its lease."""
        return STOLEN not in state.messages

    def no_contradictions(self, state: GovernedState) -> bool:
        """As `route.contradictions`: an idle or saturated lane has no work with room, or a bell."""
        for lane, condition in enumerate(state.lanes):
            if condition == RUNNABLE or self._is_about_to_change(state, lane):
                continue
            of_lane = [state.messages[i] for i, its in enumerate(self.lane_of) if its == lane]
            has_room = condition == IDLE or of_lane.count(RUNNING) < self.max_running
            if READY in of_lane and has_room:
                return False
        return True

    def _is_about_to_change(self, state: GovernedState, lane: int) -> bool:
        return lane in state.bells or any(
            lane in (*each.doing.rung, *each.doing.marked) for each in state.workers
        )

    def all_have_ended(self, state: GovernedState) -> bool:
        """When nothing can happen any more, no message is left."""
        return all(each == ENDED for each in state.messages)


def _became(state: GovernedState, message: int, condition: str) -> GovernedState:
    messages = (*state.messages[:message], condition, *state.messages[message + 1 :])
    return state._replace(messages=messages)


def _is_taken(state: GovernedState, message: int) -> bool:
    """Return whether an open claim has locked a message."""
    return any(message in each.doing.messages for each in state.workers)


def _is_locked(state: GovernedState, lane: int) -> bool:
    return any(
        lane in each.doing.marked
        or (each.doing.what in ("lock", "claim") and each.doing.lane == lane)
        for each in state.workers
    )


def _fenced_off(state: GovernedState, message: int) -> GovernedState:
    """Take the lease of a message from its run."""
    workers = [
        each._replace(runs=tuple((id, lease and id != message) for id, lease in each.runs))
        for each in state.workers
    ]
    return _in_order(state._replace(workers=tuple(workers)))


def _in_order(state: GovernedState) -> GovernedState:
    """Forget runs whose settle changes nothing, and the order of workers: they are alike."""
    workers = [
        each._replace(
            runs=tuple(sorted({run for run in each.runs if state.messages[run[0]] != ENDED}))
        )
        for each in state.workers
    ]
    return state._replace(workers=tuple(sorted(workers)))
