"""Combined signatures: chains, groups and chords. Their messages are a flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain as concatenated
from itertools import count
from typing import Any

from pgqueue.compat.celery import current
from pgqueue.compat.celery.group_result import GroupResult
from pgqueue.compat.celery.placing import LINKS, Placing, store
from pgqueue.compat.celery.signatures import Signature, as_signatures, signature
from pgqueue.compat.celery.utils import uuid
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks.canvas import Placed

OF_THE_LAST = ("link", "task_id")
"""Options of a chain that hold for its last task; link_error holds for all."""
OF_THE_HEADER = ("countdown", "eta")
"""Options of a chord that hold for its header, and not for its body."""


class Canvas(Signature):
    """Several signatures as one."""

    def __init__(self, kwargs: dict[str, Any], options: dict[str, Any]) -> None:
        immutable = bool(options.pop("immutable", False))
        super().__init__(f"celery.{self.kind}", (), kwargs, options, immutable=immutable)

    @property
    def tasks(self) -> list[Any]:
        """Its signatures. The caller may change this list."""
        given = self.kwargs["tasks"]
        if type(given) is not list or not all(isinstance(each, Signature) for each in given):
            self.kwargs["tasks"] = given = as_signatures(given)
        return given

    @tasks.setter
    def tasks(self, tasks: Any) -> None:
        self.kwargs["tasks"] = as_signatures(tasks)

    @property
    def label(self) -> str:
        """The name of its first task."""
        tasks = self.tasks
        return tasks[0].label if tasks else self.name

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store all its messages or none, in the open transaction."""
        made = self.clone(args, kwargs, **options)
        return made.apply() if current.conf().task_always_eager else store(made)

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Return a copy with more arguments for its first tasks, and other options."""
        copy = super().clone(args, None, **options)
        if "tasks" in copy.kwargs:
            copy.kwargs["tasks"] = list(self.tasks)
        if kwargs and not self.immutable:
            copy["named"] = {**self.get("named", {}), **kwargs}
        return copy

    def _given_to(self, task: Signature, **options: Any) -> Any:
        """Return a task with the additional arguments of this canvas."""
        if not (self.args or self.get("named") or options):
            return task
        return task.clone(self.args, self.get("named"), **options)

    def _other_options(self, *names: str) -> dict[str, Any]:
        return {name: each for name, each in self.options.items() if name not in names}


class chain(Canvas):
    """Tasks in sequence: each gets the previous task's return value as its first argument.

    Args:
        tasks: signatures, groups and chords, or one iterable of them.
        options: options of the first task; link and task_id hold for the last task, link_error
            for all.
    """

    kind = "chain"

    def __init__(self, *tasks: Any, **options: Any) -> None:
        is_one = len(tasks) == 1 and isinstance(tasks[0], Signature)
        given = [tasks[0]] if is_one else _listed(tasks)
        super().__init__({"tasks": list(_spliced(given))}, options)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Store its messages; these arguments come before the own arguments of its first task."""
        return self.apply_async(args, kwargs)

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Signature):
            return NotImplemented
        return chain(*self.steps(), other)

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Return a copy, also of its tasks."""
        copy = super().clone(args, kwargs, **options)
        copy.tasks = [each.clone() for each in copy.tasks]
        return copy

    def steps(self) -> list[Any]:
        """Return its tasks, with the arguments and options of this chain."""
        tasks = list(self.tasks)
        if not tasks:
            return []
        tasks[0] = self._given_to(tasks[0], **self._other_options("link_error", *OF_THE_LAST))
        tasks[-1] = tasks[-1].clone()
        for name in OF_THE_LAST:
            if name in self.options:
                tasks[-1] = _with_option(tasks[-1], name, self.options[name])
        if errbacks := self.linked("link_error"):
            # As in Celery, a group before another task has no errback: the chord's body has it.
            tasks = [
                each
                if isinstance(each, group) and each is not tasks[-1]
                else _with_option(each, "link_error", errbacks)
                for each in tasks
            ]
        return tasks

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store its messages; return the result of the last. Without tasks it does nothing."""
        return super().apply_async(args, kwargs, **options) if self.tasks else None

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run its tasks in this process, at once."""
        last: Any = None
        for step in self.clone(args, kwargs, **options).steps():
            result = step.apply(() if last is None else (last.get(),))
            result.parent, last = last, result
        return last

    def place(
        self, into: Placing, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Placed:
        """Add the messages of its tasks to a flow, in sequence."""
        steps = self.steps()
        if not steps:
            raise InvalidTask("A chain without tasks is invalid as a part of another chain.")
        if self.immutable:
            steps[0] = _independent(steps[0])
        placed = previous
        for step in steps[:-1]:
            placed = step.place(into, placed, taken=True, group=None)
        last: Placed = steps[-1].place(into, placed, taken=taken, group=group)
        return last


class group(Canvas):
    """Tasks in parallel. The tasks of an inner group become tasks of this group.

    Args:
        tasks: signatures, or one iterable of them.
        options: options of each task.
    """

    kind = "group"

    def __init__(self, *tasks: Any, **options: Any) -> None:
        super().__init__({"tasks": _listed(tasks)}, options)

    def __repr__(self) -> str:
        return f"group({self.tasks!r})"

    def __call__(self, *partial_args: Any, **options: Any) -> Any:
        """Store its messages; these arguments come before the own arguments of each task."""
        return self.apply_async(partial_args, **options)

    def __len__(self) -> int:
        return len(self.kwargs["tasks"])

    def __bool__(self) -> bool:
        return True

    def __or__(self, other: Any) -> Any:
        if not isinstance(other, Signature):
            return NotImplemented
        return self if _is_empty(other) else chord(self, other)

    def skew(self, start: float = 1.0, stop: float | None = None, step: float = 1.0) -> group:
        """Set countdowns so that each task begins after the previous one; return this group.

        Args:
            start: the countdown of the first task, in seconds.
            stop: the longest countdown, in seconds.
            step: seconds between two tasks.
        """
        for task, seconds in zip(self.tasks, count(start, step), strict=False):
            task.set(countdown=seconds if stop is None else min(seconds, stop))
        return self

    def link(self, callback: Any) -> Any:
        """Link a signature to the first task, without its result, as in Celery."""
        first: Signature = self.tasks[0]
        return first.link(callback.clone().set(immutable=True))

    def link_error(self, errback: Any) -> Any:
        """Link an errback to each task: it is called once for each failed task."""
        return tuple(task.link_error(errback.clone()) for task in self.tasks)

    def set_immutable(self, immutable: bool) -> None:
        """Set whether its tasks ignore more arguments."""
        for task in self.tasks:
            task.set_immutable(immutable)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store its messages; return their results.

        Raises:
            TypeError: the options contain a link. A task after a group is the body of a chord.
        """
        if given := [name for name in LINKS if name in options]:
            raise TypeError(
                f"{given[0]}= of a group: link its tasks, or add a body: chord(group)(body)."
            )
        if not self.flattened():
            return GroupResult(uuid(), [])
        return super().apply_async(args, kwargs, **options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run its tasks in this process, at once."""
        tasks = self.clone(args, kwargs, **options).flattened()
        return GroupResult(uuid(), [each.apply() for each in tasks])

    def flattened(self) -> list[Any]:
        """Return its tasks and the tasks of inner groups, with the options of this group."""
        options = self._other_options("task_id")
        given = [self._given_to(each, **options) for each in self.tasks]
        return list(
            concatenated.from_iterable(
                each.flattened() if isinstance(each, group) else [each]
                for each in given
                if not (isinstance(each, chain) and not each.tasks)
            )
        )

    def place(
        self, into: Placing, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Placed:
        """Add the messages of its tasks to a flow, in parallel."""
        placed: Placed = into.add_group(self.flattened(), previous, taken=taken)
        return placed


class chord(Canvas):
    """A group and a body: the body gets the list of the group's return values.

    The body fails with a ChordError if a task of the group has failed.

    Args:
        header: a group, or an iterable of signatures.
        body: the signature that follows the group; or give it by `chord(header)(body)`.
        options: options of the body; countdown and eta hold for the header.
    """

    kind = "chord"

    def __init__(self, header: Any, body: Any = None, **options: Any) -> None:
        super().__init__({"header": _as_header(header), "body": body, "kwargs": {}}, options)

    def __repr__(self) -> str:
        return f"{self.header!r} | {self.body!r}"

    def __call__(self, body: Any = None, **options: Any) -> Any:
        """Store its messages, with this body."""
        return self.apply_async((), {"body": body} if body is not None else None, **options)

    @property
    def header(self) -> Any:
        """The group."""
        return self._part("header")

    @header.setter
    def header(self, header: Any) -> None:
        self.kwargs["header"] = _as_header(header)

    @property
    def tasks(self) -> list[Any]:
        """The tasks of the group. The caller may change this list."""
        tasks: list[Any] = self.header.tasks
        return tasks

    @tasks.setter
    def tasks(self, tasks: Any) -> None:
        self.header = tasks

    @property
    def body(self) -> Any:
        """The signature that follows the group."""
        return self._part("body")

    @body.setter
    def body(self, body: Any) -> None:
        self.kwargs["body"] = body

    def _part(self, name: str) -> Any:
        """Return the header or the body as a signature, which the caller may change."""
        part = self.kwargs[name]
        if part is not None and not isinstance(part, Signature):
            self.kwargs[name] = part = signature(part)
        return part

    def __or__(self, other: Any) -> Any:
        return chain(self, other) if isinstance(other, Signature) else NotImplemented

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Return a copy, also of its body."""
        copy = super().clone(args, kwargs, **options)
        if copy.body is not None:
            copy.body = copy.body.clone()
        return copy

    def set_immutable(self, immutable: bool) -> None:
        """Set whether the tasks of its header ignore more arguments."""
        for task in self.tasks:
            task.set_immutable(immutable)

    def link(self, callback: Any) -> Any:
        """Link a signature to the body."""
        return self.body.link(callback)

    def link_error(self, errback: Any) -> Any:
        """Link an errback: it is called when the body, or a task before it, has failed."""
        for each in self.tasks:
            if isinstance(each, chord):
                each.link_error(errback)
        return self.body.link_error(errback)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store its messages; return the result of the body."""
        named = dict(kwargs or {})
        made = self
        if body := named.pop("body", None):
            made = self.clone()
            made.kwargs["body"] = body
        return super(chord, made).apply_async(args, named, **options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run its tasks in this process, at once."""
        header, body = self.clone(args, kwargs, **options).parts()
        results = header.apply()
        result = body.apply((results.get(),))
        result.parent = results
        return result

    def parts(self) -> tuple[Any, Any]:
        """Return the header and the body, with the arguments and options of this chord."""
        body = self.body
        if body is None:
            raise InvalidTask("A chord needs a body: chord(header)(body), or chord(header, body).")
        header = self._given_to(self.header, **self._other_options("task_id", *LINKS))
        if self.immutable:
            header = _independent(header)
        body = body.clone(**self._other_options(*LINKS, *OF_THE_HEADER))
        for kind in LINKS:
            if linked := self.linked(kind):
                body = _with_option(body, kind, linked)
        return header, body

    def place(
        self, into: Placing, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Placed:
        """Add the messages of the header to a flow, then the messages of the body."""
        header, body = self.parts()
        together = header.place(into, previous, taken=True, group=None)
        placed: Placed = body.place(into, together, taken=taken, group=group)
        return placed


def _listed(tasks: tuple[Any, ...]) -> list[Any]:
    """Return several tasks, or one iterable of tasks, as signatures."""
    given: Iterable[Any] = tasks
    if len(tasks) == 1:
        [only] = tasks
        if isinstance(only, group):
            given = only.tasks
        elif isinstance(only, Iterable) and not isinstance(only, Mapping):
            given = only
    return [each if isinstance(each, Signature) else signature(each) for each in given]


def _spliced(tasks: Sequence[Any]) -> Iterator[Any]:
    """Yield the steps of a chain.

    An inner chain is replaced by its steps, and a group of one task by this task, also if the task
    is in an inner group. Empty groups are left out, unless there are no other steps.
    """
    given = [step for each in tasks for step in _steps_of(each)]
    steps = [each for each in given if not _is_empty(each)] or given[:1]
    for step in steps:
        flat = step.flattened() if isinstance(step, group) else ()
        yield flat[0] if len(flat) == 1 else step


def _steps_of(task: Any) -> list[Any]:
    return task.steps() if isinstance(task, chain) else [task]


def _as_header(header: Any) -> group:
    """Return the header of a chord: a chain's tasks run in parallel in it, as in Celery."""
    if isinstance(header, group):
        return header
    return group(header.tasks if isinstance(header, chain) else header)


def _is_empty(task: Any) -> bool:
    return isinstance(task, group) and not task.flattened()


def _with_option(task: Any, name: str, value: Any) -> Any:
    """Return a copy with one more option; links are added to the existing ones."""
    if name not in LINKS:
        return task.clone().set(**{name: value})
    changed = _copied(task)
    for each in as_signatures(value):
        getattr(changed, name)(each)
    return changed


def _copied(task: Any) -> Any:
    """Return a copy; of a group or a chord, also a copy of all its tasks, which have its links."""
    copy = task.clone()
    if isinstance(copy, group):
        copy.tasks = [_copied(each) for each in copy.tasks]
    elif isinstance(copy, chord):
        copy.header, copy.body = _copied(copy.header), copy.body and _copied(copy.body)
    return copy


def _independent(task: Any) -> Any:
    """Return a copy that takes no result of the step before it."""
    copy = _copied(task)
    copy.set_immutable(True)
    return copy
