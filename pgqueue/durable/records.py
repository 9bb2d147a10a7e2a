"""The stored steps of one run, and its steps that are not stored yet."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import connections, transaction

from pgqueue.codec.json_text import from_json
from pgqueue.conf import settings
from pgqueue.durable import redactors
from pgqueue.engine import steps as engine
from pgqueue.engine.steps import Kind, StoredStep
from pgqueue.engine.values import Claim
from pgqueue.exceptions import InvalidStep, LeaseLost, TooManySteps
from pgqueue.tasks import encryption
from pgqueue.tasks.redacting import RedactedColumn
from pgqueue.values.names import as_text

NAME_BYTES = 190
"""The limit of a step's name; "#12" may follow it."""
STEP = "step"
"""The name of its part of a message, for encryption."""
FORKED = b'"forked_from"'
"""The key in the metadata of a message that began with the steps of another one."""


Share = Callable[[Claim, StoredStep, timedelta], bool]
"""Stores a step that is done, together with others; returns whether it is stored. If it returns
False, the step may be stored or not."""


class StepCipher:
    """Encrypts the results of a task's steps for the task, whatever functions they are of.

    So `pgqueue_reencrypt` needs to know only the task.
    """

    def __init__(self, task: str) -> None:
        self._task = task

    def seal(self, function: str, what: str, text: str) -> str:
        """Return the token of a result."""
        return encryption.seal(self._task, STEP, text)

    def unseal(self, function: str, what: str, token: str) -> str:
        """Return the result of a token.

        Raises:
            DecryptionFailed: no key decrypts it, or it is of another task, or no result of a step.
        """
        return encryption.unseal(self._task, STEP, token)


class Records:
    """The steps of the message of one run.

    Args:
        alias: the database that the message is in.
        claim: the message as it was claimed.
        is_encrypted: whether what is stored of its task is encrypted.
    """

    def __init__(self, alias: str, claim: Claim, *, is_encrypted: bool = False) -> None:
        self._alias = alias
        self._is_encrypted = is_encrypted
        self._claim = claim
        self._stored: dict[str, StoredStep] | None = None
        self._last = 0
        self._used: Counter[str] = Counter()
        self._visited: set[str] = set()
        self._awaited: Counter[str] = Counter()
        self._functions: dict[str, str] = {}
        self._values: list[dict[str, Any]] = []
        self._replaced: dict[str, StoredStep | None] | None = None
        self.share: Share | None = None
        """Stores a step together with steps of other runs; None: each step has its own commit."""
        self.has_progressed = False
        """Whether this run has finished a step: its failures are counted anew from there."""

    def load(self) -> None:
        """Read the stored steps now."""
        self._all()

    def preset(self, steps: Iterable[StoredStep]) -> dict[str, StoredStep]:
        """Take these steps as the stored ones, and return them by their names."""
        self._stored = stored = {each.name: each for each in steps}
        self._last = max((each.number for each in stored.values()), default=0)
        return stored

    def next_name(self, base: str) -> str:
        """Return the name of the next step of a kind: `charge`, then `charge#2`, `charge#3`.

        Raises:
            InvalidStep: the name is empty or too long, or not storable.
        """
        try:
            if not as_text(base, NAME_BYTES):
                raise ValueError("it must not be empty.")
        except (TypeError, ValueError) as error:
            raise InvalidStep(f"The name {base!r:.99} of a step: {error}") from error
        self._used[base] += 1
        number = self._used[base]
        name = base if number == 1 else f"{base}#{number}"
        self._visited.add(name)
        return name

    def check_function(self, base: str, function: str) -> None:
        """Check that all steps of a name call the same function.

        Raises:
            InvalidStep: an earlier step of this run with the name called another function.
        """
        if (other := self._functions.setdefault(base, function)) != function:
            raise InvalidStep(
                f"Two steps are named {base!r}, of {other} and of {function}: give one of them "
                "another name=."
            )

    def find(self, name: str) -> StoredStep | None:
        """Return a step as it is stored; None: it has not begun."""
        return self._all().get(name)

    def new(self, name: str, kind: Kind, **columns: Any) -> StoredStep:
        """Return a step that begins now.

        Raises:
            TooManySteps: the run has as many as it may have.
        """
        self._all()
        if self._last >= settings().max_steps:
            raise TooManySteps(
                f"Message {self._claim.id} has {self._last} steps, and may have no more "
                f'(PGQUEUE["MAX_STEPS"]): let it end, and go on by run.continue_as().'
            )
        self._last += 1
        return StoredStep(name, self._last, kind, **columns)

    def is_replaying(self) -> bool:
        """Return whether earlier runs have gone further than this one."""
        # A step that the code no longer has may be behind this place or ahead of it. It counts as
        # ahead: then the run goes the old way on, which contradicts nothing.
        return any(name not in self._visited for name in self._all())

    def note_unvisited(self) -> None:
        """Note which stored steps this run has not called: its code may no longer have them."""
        steps = self._all().values()
        if changed := [
            each.name for each in steps if each.unvisited == (each.name in self._visited)
        ]:
            engine.note_unvisited(connections[self._alias], self._claim, changed)

    def begin_wait(self, signals: Iterable[str]) -> None:
        """Note that this run has reached a wait for the first of some signals."""
        self._awaited.update(set(signals))

    def waits_passed(self, signal: str) -> int:
        """Return how many waits for a signal this run has reached so far."""
        return self._awaited[signal]

    def columns(self) -> Iterable[RedactedColumn]:
        """Return the results that this run knows, to search them for redacted values."""
        return redactors.columns(self._claim.task, list((self._stored or {}).values()))

    def store(
        self,
        step: StoredStep,
        *,
        took: timedelta = timedelta(),
        delay: timedelta | None = None,
        until: datetime | None = None,
    ) -> StoredStep:
        """Store what became of a step, and the side values before it.

        Returns:
            The step as it is stored: perhaps as an earlier run has stored it meanwhile.

        Raises:
            LeaseLost: this run has lost its message.
        """
        if self.share and self._is_shareable(step) and self.share(self._claim, step, took):
            self.note(step)
            return step
        with self.sending_values() as values:
            came_of = engine.store(
                connections[self._alias],
                self._claim,
                step,
                took=took,
                delay=delay,
                until=until,
                values=values,
            )
        self.check_kept(came_of)
        if came_of == "done":
            found = engine.find_step(connections[self._alias], self._claim.id, step.name)
            step = found or step
        self.note(step)
        return step

    def keep_values(self, step: StoredStep) -> StoredStep:
        """Store the side values before a step whose function is called now, and may use them.

        Returns:
            The step: perhaps an earlier run has stored its result meanwhile.

        Raises:
            LeaseLost: this run has lost its message.
        """
        return self.store(step, delay=timedelta()) if self._values else step

    def _is_shareable(self, step: StoredStep) -> bool:
        """Return whether a step may be stored on another connection, and stands alone."""
        if self._values or step.state != "done":
            return False
        own = connections[self._alias]
        is_autocommit = own.settings_dict["AUTOCOMMIT"] and (
            own.connection is None or own.autocommit
        )
        return is_autocommit and not own.in_atomic_block

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Open a transaction. If it is rolled back, what is noted in it is forgotten, too."""
        values, has_progressed = self._values, self.has_progressed
        replaced: dict[str, StoredStep | None] = {}
        self._replaced = replaced
        try:
            with transaction.atomic(using=self._alias):
                yield
        except BaseException:
            self._values, self.has_progressed = values, has_progressed
            for name, before in replaced.items():
                if before is None:
                    del self._all()[name]
                else:
                    self._all()[name] = before
            raise
        finally:
            self._replaced = None

    @contextmanager
    def sending_values(self) -> Iterator[str | None]:
        """Lend the steps that are not stored yet to a statement; keep them if it fails."""
        values = self._values
        try:
            yield self.take_unstored()
        except BaseException:
            self._values = values
            raise

    def check_kept(self, came_of: str) -> None:
        """Raise LeaseLost if a verb of the engine says that the lease is lost."""
        if came_of == "lost":
            raise LeaseLost(
                f"{self._claim.task} #{self._claim.id} is not this run's any more: its lease ran "
                "out, or it was settled elsewhere. Nothing more of this run is recorded."
            )

    def note(self, step: StoredStep) -> None:
        """Note a step as it is stored now."""
        if self._replaced is not None:
            self._replaced.setdefault(step.name, self._all().get(step.name))
        self._all()[step.name] = step
        if step.state in ("done", "failed"):
            self.has_progressed = True

    def note_value(self, step: StoredStep) -> None:
        """Note a step that is done, and is stored with the next one: it costs no transaction."""
        self._all()[step.name] = step
        self._values.append(_row(step))

    def sealed(self, text: str) -> str:
        """Return the JSON of a step's result as it is stored: encrypted, if its task is."""
        return encryption.enveloped(self._claim.task, STEP, text) if self._is_encrypted else text

    def opened(self, text: str) -> Any:
        """Return the stored result of a step as parsed JSON.

        Raises:
            DecryptionFailed: no key decrypts it.
        """
        return encryption.opened(self._claim.task, STEP, from_json(text))

    def take_unstored(self, *further: Mapping[str, Any]) -> str | None:
        """Return the steps that are not stored yet, as JSON, and forget them; None: none."""
        rows = [*self._values, *further]
        self._values = []
        return json.dumps(rows) if rows else None

    def _all(self) -> dict[str, StoredStep]:
        if self._stored is None:
            # The first run of a message has none: a query less.
            claim = self._claim
            is_first = claim.attempt == 1 and FORKED not in claim.metadata
            return self.preset([] if is_first else engine.load(connections[self._alias], claim.id))
        return self._stored


def _row(step: StoredStep) -> dict[str, Any]:
    return {
        "name": step.name,
        "number": step.number,
        "kind": step.kind,
        "state": "done",
        "result": None if step.result is None else json.loads(step.result),
    }


def waiting_row(step: StoredStep, signals: Sequence[str] = ()) -> dict[str, Any]:
    """Return the row of a step that waits, or that will be tried again."""
    return {
        "name": step.name,
        "number": step.number,
        "kind": step.kind,
        "function": step.function,
        "state": step.state,
        "signals": list(signals),
        "error": None if step.error is None else json.loads(step.error),
        "tries": step.tries,
    }


def savepoints(alias: str) -> list[str] | None:
    """Return the savepoints of the open transaction; None: there is no transaction."""
    connection = connections[alias]
    return list(connection.savepoint_ids) if connection.in_atomic_block else None
