"""Signatures that call a task with each of many values."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, ClassVar

from pgqueue.compat.celery import combining
from pgqueue.compat.celery.combining import Canvas
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.placing import Placing
from pgqueue.compat.celery.signatures import Signature, signature
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks.canvas import Placed
from pgqueue.values.error_words import shown


class _Map(Signature):
    """A task that one message calls for each of many values, in sequence.

    Raises:
        Unsupported: (constructor) the task hides arguments.
    """

    named: ClassVar[str]

    def __init__(self, task: Any, it: Iterable[Any], **options: Any) -> None:
        inner = signature(task)
        if inner.type.redact:
            raise Unsupported(
                f"{self.kind} of {inner.name}: arguments that its option redact hides would be "
                "shown as an argument of the map: use a group of signatures."
            )
        options.setdefault("queue", inner.type.own.queue_name)
        super().__init__(self.named, (), {"task": inner, "it": list(it)}, options, immutable=True)

    def __repr__(self) -> str:
        called = "(*x)" if self.kind == "xstarmap" else "(x)"
        return f"[{self.kwargs['task']['task']}{called} for x in {self.kwargs['it']!r}]"


class xmap(_Map):
    """A task that is called with each of many values: `add.map(values)`."""

    kind = "xmap"
    named = "celery.map"


class xstarmap(_Map):
    """A task that is called with each of many tuples of arguments: `add.starmap(pairs)`."""

    kind = "xstarmap"
    named = "celery.starmap"


class chunks(Canvas):
    """A group of starmaps of at most `n` calls each: `add.chunks(pairs, n)`."""

    kind = "chunks"

    def __init__(self, task: Any, it: Iterable[Any], n: int, **options: Any) -> None:
        if not isinstance(n, int) or n < 1:
            raise InvalidTask(f"chunks(n={shown(n)}): it must be 1 or more.")
        super().__init__({"task": signature(task), "it": list(it), "n": n}, options)

    def __call__(self, **options: Any) -> Any:
        """Store its messages."""
        return self.apply_async(**options)

    @property  # type: ignore[misc]
    def tasks(self) -> list[Any]:  # computed at each access; there is no setter
        """The starmaps."""
        return self.group().tasks

    def group(self) -> combining.group:
        """Return the group."""
        task, rest = self.kwargs["task"], iter(self.kwargs["it"])
        parts = iter(lambda: list(islice(rest, self.kwargs["n"])), [])
        return combining.group((xstarmap(task, part) for part in parts), **self.options)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store its messages; return their results, each with a list of values."""
        return self.group().apply_async(**options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run its tasks in this process, at once."""
        return self.group().apply(**options)

    def place(
        self, into: Placing, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Placed:
        """Add the messages of its tasks to a flow, in parallel."""
        return self.group().place(into, previous, taken=taken, group=group)
