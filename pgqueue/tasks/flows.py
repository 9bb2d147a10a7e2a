"""Flows: messages that are stored together and may wait for each other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Any, NamedTuple

from asgiref.sync import sync_to_async
from django.db import connections, transaction

from pgqueue.conf import settings
from pgqueue.database.connections import borrow
from pgqueue.database.migration_check import needing_tables
from pgqueue.engine import flows as engine
from pgqueue.engine import lookup, operate
from pgqueue.engine.lookup import id_of
from pgqueue.engine.operate import BATCH, Operated, Verb
from pgqueue.exceptions import FlowDoesNotExist, InvalidFlow, WaitInTransaction, WaitTimeout
from pgqueue.states import WAITING, Outcome, State
from pgqueue.tasks import waiting
from pgqueue.tasks.current import running
from pgqueue.tasks.flow_building import Draft
from pgqueue.tasks.flow_members import waits_for_itself
from pgqueue.tasks.flow_storing import StoredDraft
from pgqueue.values.number_checks import as_flag, as_timedelta

LOOK_EVERY = 0.5
"""Seconds between two looks at an awaited flow, in case a notification does not arrive."""
FAILED = {State.DEAD, Outcome.CANCELLED, Outcome.DISCARDED, Outcome.EXPIRED}


class Progress(NamedTuple):
    """The number of a flow's messages in each state.

    Attributes:
        done: messages that succeeded.
        failed: messages that are dead, or were cancelled, discarded or expired.
        running: messages that a worker runs.
        ready: messages that may run now.
        waiting: messages that wait for parents, for their time, or for the commit of their hold.
    """

    done: int
    failed: int
    running: int
    ready: int
    waiting: int

    @classmethod
    def of(cls, counts: Mapping[str, int]) -> Progress:
        """Return the progress for these counts of messages by state or outcome."""
        return cls(
            done=counts.get(Outcome.SUCCEEDED, 0),
            failed=sum(counts.get(word, 0) for word in FAILED),
            running=counts.get(State.RUNNING, 0),
            ready=counts.get(State.READY, 0),
            waiting=sum(counts.get(word, 0) for word in (WAITING, State.HELD, State.SCHEDULED)),
        )

    @property
    def total(self) -> int:
        """The number of messages that the flow has so far."""
        return sum(self)

    @property
    def has_ended(self) -> bool:
        """Whether all messages have ended or are dead."""
        return self.done + self.failed == self.total


def flow(
    name: str,
    *,
    on_end: Any = None,
    after: Iterable[Draft] | Draft = (),
    database: str | None = None,
) -> Flow:
    """Collect messages that may wait for each other, and store them at the end of the `with` block.

        with flow("import") as f:
            parts = [f.enqueue(fetch, url) for url in urls]
            f.enqueue(merge, parts)

    The messages are part of the open transaction, or of one of their own. After an error nothing
    is stored. In async code, use `async with`.

    Args:
        name: a name for people; several flows may have the same name.
        on_end: a task that is called once with the flow's id, when all messages have ended with
            any outcome, or are dead. It is a message of the flow, too.
        after: a stored flow, or a list of stored flows. Each message without a parent in the new
            flow waits until they have ended. A message that is added to the flow later does not
            wait for them.
        database: the alias of the queue's database, if not the one of `PGQUEUE`.

    Raises:
        InvalidFlow: the name is no storable text, or `after` is not a flow.
    """
    if not isinstance(name, str) or "\0" in name:
        raise InvalidFlow(f"{name!r:.99} is no name of a flow: it must be a text without NUL.")
    return Flow(name, database or settings().database, on_end=on_end, after=_flows(name, after))


def get_flow(id: str | int, *, database: str | None = None) -> Flow:
    """Look a flow up by its id.

    Raises:
        FlowDoesNotExist: the flow was rolled back, or is no longer kept.
    """
    alias = database or settings().database
    if (flow_id := id_of(id)) is None:
        raise _unknown(id)
    with needing_tables(alias):
        found = engine.find_flow(connections[alias], flow_id)
    if found is None:
        raise _unknown(id)
    known = Flow(found.name, alias)
    known.id = str(found.id)
    known._is_open = False
    return known


async def aget_flow(id: str | int, *, database: str | None = None) -> Flow:
    """Look a flow up by its id, from async code, as `get_flow()` does."""
    return await sync_to_async(get_flow)(id, database=database)


def _unknown(id: str | int) -> FlowDoesNotExist:
    return FlowDoesNotExist(
        f"No flow has the id {id}: it was rolled back, or it is not kept any more."
    )


class Flow(StoredDraft):
    """Messages of a flow, before or after they are stored. Made by `flow()` and `get_flow()`.

    Attributes:
        id: its number, as text; '' until it is stored.
        name: a name for people.
    """

    def __init__(
        self, name: str, database: str, *, on_end: Any = None, after: Sequence[Draft] = ()
    ) -> None:
        super().__init__(database)
        self.name = name
        self._on_end = on_end
        self._after = after

    def __str__(self) -> str:
        return f"the flow {self.name!r}"

    def __repr__(self) -> str:
        return f"<Flow {self.name} #{self.id}>"

    def __enter__(self) -> Flow:
        if self.id and not self._is_open:
            self._open_again()
        self._check_open()
        for each in self._after:
            self._check_flow(str(self), each)
        self._outside = self._savepoints()
        return self

    def _open_again(self) -> None:
        """Start to collect further messages for a flow that is stored."""
        stored = [each for each in self._members if each.id and each.came_of == "stored"]
        for number, member in enumerate(stored, len(self._others)):
            member.number = -1 - number
        self._others += stored
        self._members, self._names, self._handler = [], {}, None
        self._after, self._latches = (), {}
        self._is_open = True

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if kind is None:
            self.forget_rolled_back()
        if kind is None and len(self):
            try:
                with needing_tables(self.database), transaction.atomic(using=self.database):
                    if self.id:
                        self._extend(connections[self.database])
                    else:
                        self._begin(connections[self.database])
            except BaseException:
                for member in self._members:
                    member.id = ""
                raise
            self.tell_stored()
        self._is_open = False

    async def __aenter__(self) -> Flow:
        return self.__enter__()

    async def __aexit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        await sync_to_async(self.__exit__)(kind, *raised)

    def _begin(self, connection: Any) -> None:
        self.place_latches()
        flow_id = engine.reserve(connection)
        handler = None
        if self._on_end is not None:
            handler = self.add(
                self._on_end,
                (str(flow_id),),
                {},
                after=list(self._members),
                on_failure="run",
            )
            self._handler = handler
        self.store(connection, flow_id)
        engine.begin(
            connection,
            flow_id,
            self.name,
            handler_id=None if handler is None else handler.message_id,
            names=self.named_ids(),
        )
        self.id = str(flow_id)

    def _extend(self, connection: Any) -> None:
        if not engine.keep(connection, int(self.id)):
            raise InvalidFlow(
                f"No message can be added to {self!r}: it has ended, or is not committed yet."
            )
        self.extend(connection, int(self.id), 0)

    @property
    def progress(self) -> Progress:
        """The current number of its messages in each state.

        Raises:
            FlowDoesNotExist: the flow was rolled back, or is no longer kept.
        """
        flow_id = self._stored()
        with needing_tables(self.database):
            counts = engine.progress(connections[self.database], [flow_id])[flow_id]
            if not counts and engine.find_flow(connections[self.database], flow_id) is None:
                raise _unknown(flow_id)
        return Progress.of(counts)

    async def aprogress(self) -> Progress:
        """Return the number of its messages in each state, from async code."""
        return await sync_to_async(lambda: self.progress)()

    def cancel(self, *, keep_clean_up: bool = False) -> Operated:
        """End the messages that wait, and ask the running ones to end. The `on_end` task runs then.

        Dead messages stay as they are: they may be replayed or discarded.

        Args:
            keep_clean_up: keep the messages with `on_failure="run"` that still wait for parents.
                Each runs when its parents have ended.

        Returns:
            The ids of the messages that have ended (`done`), that run and were asked to end
            (`asked`), and that another transaction has locked (`busy`). For the last, call it
            again.
        """
        try:
            keep = as_flag(keep_clean_up)
        except TypeError as error:
            raise InvalidFlow(f"keep_clean_up={keep_clean_up!r:.99}: {error}") from error
        return self._operate(operate.cancel, besides_handler=True, besides_clean_up=keep)

    async def acancel(self, *, keep_clean_up: bool = False) -> Operated:
        """End the messages of the flow, from async code, as `cancel()` does."""
        return await sync_to_async(self.cancel)(keep_clean_up=keep_clean_up)

    def retry(self) -> Operated:
        """Make each dead message ready again, with its full number of attempts.

        Returns:
            The ids of the messages that are ready again (`done`), and of the messages that another
            transaction has locked (`busy`).
        """
        return self._operate(operate.replay, state=State.DEAD)

    async def aretry(self) -> Operated:
        """Make each dead message ready again, from async code."""
        return await sync_to_async(self.retry)()

    def _operate(
        self,
        verb: Verb,
        *,
        state: State | None = None,
        besides_handler: bool = False,
        besides_clean_up: bool = False,
    ) -> Operated:
        done = Operated()
        flow_id = self._stored()
        with needing_tables(self.database):
            batches = engine.live(
                connections[self.database],
                flow_id,
                state=state,
                besides_handler=besides_handler,
                besides_clean_up=besides_clean_up,
                limit=BATCH,
            )
            for ids in batches:
                with transaction.atomic(using=self.database), borrow(self.database) as connection:
                    done |= operate.unless_locked(connection, verb, ids)
        return done

    def wait(self, timeout: float | timedelta | None = None) -> Progress:
        """Wait until no message can go on: each has ended, is dead, or waits for a dead one.

        Args:
            timeout: seconds or a timedelta; None: without a limit.

        Raises:
            WaitTimeout: the flow goes on after the timeout.
            WaitInTransaction: the transaction that stores the flow is not committed.
            FlowDoesNotExist: the flow was rolled back, or is no longer kept.
            InvalidFlow: the caller is the run of a message of this flow.
        """
        self._check_not_within()
        seconds = _seconds(timeout)
        until = monotonic() + seconds
        while (moving := self._moving()) is not None:
            nap = self._until_next_look(until, seconds)
            promise = waiting.ended(self.database, moving)
            with suppress(TimeoutError):
                if promise.result(nap) is None:
                    self._check_committed(moving)
            promise.cancel()
        return self.progress

    async def await_(self, timeout: float | timedelta | None = None) -> Progress:  # noqa: ASYNC109
        """Wait until no message can go on, from async code, as `wait()` does; no thread waits."""
        await sync_to_async(self._check_not_within)()
        seconds = _seconds(timeout)
        until = monotonic() + seconds
        while (moving := await sync_to_async(self._moving)()) is not None:
            nap = self._until_next_look(until, seconds)
            promise = asyncio.wrap_future(waiting.ended(self.database, moving))
            with suppress(TimeoutError):
                if await asyncio.wait_for(promise, nap) is None:
                    await sync_to_async(self._check_committed)(moving)
        return await self.aprogress()

    def _check_not_within(self) -> None:
        within = running.get()
        if within is None or within.database != self.database or not self.id:
            return
        if (own := within.claim.flow_id) is None:
            return
        if own == int(self.id) or own in engine.awaited(connections[self.database], [int(self.id)]):
            raise waits_for_itself(within.claim.id)

    def _moving(self) -> int | None:
        """Return the id of a message that goes on; None: there is none."""
        with needing_tables(self.database):
            return engine.moving(connections[self.database], self._stored())

    def _until_next_look(self, until: float, seconds: float) -> float:
        """Return the number of seconds to wait until the next look.

        Raises:
            WaitTimeout: the timeout is over.
        """
        left = until - monotonic()
        if left <= 0:
            raise WaitTimeout(
                f"{self!r} did not end within {seconds:g} s. It goes on: wait() may be called "
                "again."
            )
        return min(LOOK_EVERY, left)

    def _check_committed(self, message_id: int) -> None:
        """Check that a message which other sessions do not see is not merely uncommitted."""
        with needing_tables(self.database):
            found = lookup.find(connections[self.database], message_id)
        if found is not None and found.state != State.DEAD and found.finished_at is None:
            raise WaitInTransaction(
                f"{self!r} is not committed, so no worker can see it: wait() after the transaction "
                "that stores it, outside of its atomic(). (Each test of a TestCase is a "
                "transaction: call pgqueue.testing.run_all() there.)"
            )

    def _stored(self) -> int:
        if not self.id:
            raise InvalidFlow(
                f"Nothing of {self} is stored: its `with` block goes on, or nothing was added."
            )
        return int(self.id)


def _seconds(timeout: float | timedelta | None) -> float:
    return TIMEOUT_MAX / 2 if timeout is None else as_timedelta(timeout).total_seconds()


def _flows(name: str, after: Any) -> Sequence[Draft]:
    """Return the flows that a new flow waits for.

    Raises:
        InvalidFlow: a value is no flow.
    """
    given = [after] if isinstance(after, Draft) or not isinstance(after, Iterable) else list(after)
    for each in given:
        if not isinstance(each, Draft):
            raise InvalidFlow(
                f"after={each!r:.99} of the flow {name!r}: it must be a flow, or a list of flows. "
                "A message of a flow is given to enqueue() as after=…"
            )
    return given
