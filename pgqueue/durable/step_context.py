"""Common rules of all steps: the place where a step may begin, its name, and side values."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from django.utils import timezone

from pgqueue.calls import tracing
from pgqueue.calls.outcomes import HandedBack
from pgqueue.codec.encoding import ANYTHING
from pgqueue.durable.records import Records, savepoints
from pgqueue.exceptions import Cancel, InvalidStep, Suspend
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.redacting import RedactedColumn

T = TypeVar("T")


@dataclass(eq=False)
class StepContext(TaskContext):
    """The part of a `DurableContext` by which its steps are found and checked."""

    step_name: str | None = field(default=None, init=False)
    """The name of the step that is under way; None: none is."""
    _outside: list[str] | None = field(default=None, init=False)
    """The savepoints that were open when the run began: those of a test."""

    def __post_init__(self) -> None:
        self.records = Records(self.database, self.claim, is_encrypted=self.task.encrypted)
        if self.task.is_async:
            self.records.load()  # an event loop must not query the database
        self._outside = savepoints(self.database)

    @property
    def idempotency_key(self) -> str:
        """A text that is the same in all tries of the step that is under way, and in no other one.

        InvalidStep is raised outside of a step.
        """
        if self.step_name is None:
            raise InvalidStep("idempotency_key belongs to a step: read it in the step's function.")
        # After continue_as(), a run has the same id, and its steps have the same names.
        run = f"{self.id} {self.claim.created_at.timestamp()} {self.metadata.get('continued', 0)}"
        return str(uuid5(NAMESPACE_OID, f"pgqueue {run} {self.step_name}"))

    @property
    def has_progressed(self) -> bool:
        """Whether the count of failures restarts: this run has finished a step."""
        return self.records.has_progressed

    def stored_columns(self) -> Iterable[RedactedColumn]:
        """Return the results of its steps, to search them for redacted values."""
        return self.records.columns()

    def completed(self) -> str | None:
        """Return the side values that no step has stored, as JSON: the function has returned."""
        self.records.note_unvisited()
        return self.records.take_unstored()

    def _next(self, base: str) -> str:
        """Return the name of the next step, if a step may begin here."""
        self.check_place()
        return self.records.next_name(base)

    def check_place(self) -> None:
        """Check that a step may begin here and now.

        Raises:
            InvalidStep: in another step, or in a transaction that the task has opened.
            Suspend: the worker is about to stop.
            Cancel: cancelling the message was requested.
            TaskTimeout: the run exceeded its timeout.
        """
        self._check_time()
        if self.step_name is not None:
            raise InvalidStep(
                f"A step can't begin in the step {self.step_name!r}: call it after that one."
            )
        if self._is_inside():
            raise InvalidStep(
                "A step can't begin in a transaction: what is stored of it would be rolled back "
                "with it. Leave the block of atomic() first, or use step(…, atomic=True)."
            )
        if self.run.cancelled:
            raise Cancel
        if self.run.stopping:
            raise Suspend(HandedBack())

    def _is_inside(self) -> bool:
        """Return whether the task has opened a transaction."""
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            return False  # here, Django has no connection
        return savepoints(self.database) != self._outside

    @contextmanager
    def in_step(self, name: str) -> Iterator[None]:
        """Note which step is under way."""
        self.step_name = name
        try:
            with tracing.step(self, name):
                yield
        finally:
            self.step_name = None

    def now(self) -> datetime:
        """Return the time at which this place was passed first."""
        return self._value("now", timezone.now)

    def random(self) -> float:
        """Return a random number from 0 to 1, the same in each run."""
        return self._value("random", random.random)

    def uuid(self) -> UUID:
        """Return a random UUID, the same in each run."""
        return self._value("uuid", uuid4)

    def patched(self, change: str) -> bool:
        """Return whether a change of the code holds for this run.

        True where no run of the message has passed this place before. Use it where new code would
        contradict what older code has done: `if run.patched("2026-12"): …`. A run with a step that
        the code no longer has counts as one that has passed.
        """
        return self._value(f"patched:{change}", lambda: not self.records.is_replaying())

    def _value(self, base: str, make: Callable[[], T]) -> T:
        name = self._next(base)
        found = self.records.find(name)
        if found is None:
            made = make()
            found = self.records.new(name, "value", result=self.records.sealed(ANYTHING.dump(made)))
            self.records.note_value(found)
        value: T = ANYTHING.read(self.records.opened(found.result or "null"))
        return value
