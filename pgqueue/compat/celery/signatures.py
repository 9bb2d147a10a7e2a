"""Signatures: calls of tasks for later, alone or combined by `canvas`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn

from pgqueue.compat.celery.async_result import AsyncResult
from pgqueue.compat.celery.exceptions import Unsupported
from pgqueue.compat.celery.running import found
from pgqueue.compat.celery.utils import uuid
from pgqueue.exceptions import InvalidTask
from pgqueue.tasks.canvas import Placed
from pgqueue.values.error_words import shown

KINDS: dict[Any, type[Signature]] = {}
"""The classes of signatures, by their `subtask_type`."""


class Signature(dict[str, Any]):
    """A call of a task for later. It is a dict, so that it is valid as a task's argument.

    Args:
        task: the task, or its name.
        args, kwargs: the arguments; arguments of a later call come before `args`.
        options: options of `apply_async`.
        immutable: whether it ignores more arguments.
        others: more options. `app` has no effect: a task has its app.
    """

    kind: ClassVar[str | None] = None

    def __init__(
        self,
        task: Any,
        args: Any = None,
        kwargs: Any = None,
        options: Any = None,
        *,
        immutable: bool = False,
        **others: Any,
    ) -> None:
        given = {**(options or {}), **others}
        given.pop("app", None)
        super().__init__(
            task=task if isinstance(task, str) else task.name,
            args=tuple(args or ()),
            kwargs=dict(kwargs or {}),
            options=given,
            subtask_type=self.kind,
            immutable=immutable,
        )
        self._type = None if isinstance(task, str) else task

    def __init_subclass__(cls) -> None:
        KINDS[cls.kind] = cls

    def __repr__(self) -> str:
        given = [repr(each) for each in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"

    @classmethod
    def from_dict(cls, d: Mapping[str, Any], app: Any = None) -> Signature:
        """Return the signature of a dict, which a task got as an argument.

        Raises:
            InvalidTask: the dict is not the dict of a signature.
        """
        return _of(d)

    @property
    def name(self) -> str:
        """The task's name."""
        return str(self["task"])

    @property
    def task(self) -> str:
        """The same as `name`."""
        return self.name

    @task.setter
    def task(self, task: Any) -> None:
        self["task"] = task if isinstance(task, str) else task.name
        self._type = None if isinstance(task, str) else task

    @property
    def label(self) -> str:
        """The name of its flow."""
        return self.name

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments."""
        return tuple(self["args"])

    @args.setter
    def args(self, args: Any) -> None:
        self["args"] = tuple(args or ())

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments."""
        kwargs: dict[str, Any] = self["kwargs"]
        return kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Any) -> None:
        self["kwargs"] = dict(kwargs or {})

    @property
    def options(self) -> dict[str, Any]:
        """The options of `apply_async`."""
        options: dict[str, Any] = self["options"]
        return options

    @options.setter
    def options(self, options: Any) -> None:
        self["options"] = dict(options or {})

    @property
    def subtask_type(self) -> str | None:
        """The kind of a combined signature: chain, group, chord, …; None: one task."""
        return self.kind

    @property
    def immutable(self) -> bool:
        """Whether it ignores more arguments."""
        return bool(self["immutable"])

    @immutable.setter
    def immutable(self, immutable: Any) -> None:
        self.set_immutable(bool(immutable))

    @property
    def id(self) -> str | None:
        """The task_id for its message, if one was given."""
        return self.options.get("task_id")

    @property
    def type(self) -> Any:
        """The task."""
        return self._type or found(self.name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the task in this process, at once."""
        partial = self.clone(args, kwargs)
        return partial.type(*partial.args, **partial.kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Store its messages; these arguments come before its own."""
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store all its messages or none, in the open transaction.

        Args:
            args, kwargs: arguments; `args` come before its own.
            options: options of a task's `apply_async`.
        """
        partial = self.clone(args, kwargs, **options)
        return partial.type.apply_async(partial.args, partial.kwargs, **partial.options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the task in this process, at once."""
        partial = self.clone(args, kwargs, **options)
        return partial.type.apply(partial.args, partial.kwargs, **partial.options)

    def place(
        self, into: Any, previous: Placed | None, *, taken: bool, group: str | None
    ) -> Placed:
        """Add its messages to a flow.

        Args:
            previous: the step before it, whose results become its first argument.
            taken: whether another message uses its return value.
            group: the number of its group.
        """
        placed: Placed = into.add(self, previous, taken=taken, group=group)
        return placed

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Return a copy with more arguments, unless it is immutable, and other options."""
        copy = type(self).__new__(type(self))
        if self.immutable:
            args = kwargs = None
        dict.__init__(copy, self)
        copy["args"] = (*(args or ()), *self.args)
        copy["kwargs"] = {**self.kwargs, **(kwargs or {})}
        copy["options"] = {**self.options, **options}
        copy._type = self._type
        return copy

    partial = clone

    def replace(self, args: Any = None, kwargs: Any = None, options: Any = None) -> Any:
        """Return a copy with other arguments or options in the place of its own."""
        copy = self.clone()
        given = {"args": args, "kwargs": kwargs, "options": options}
        copy.update({name: each for name, each in given.items() if each is not None})
        return copy

    def set(self, immutable: bool | None = None, **options: Any) -> Any:
        """Change options; return this signature."""
        self.options.update(options)
        if immutable is not None:
            self.set_immutable(immutable)
        return self

    def set_immutable(self, immutable: bool) -> None:
        """Set whether it ignores more arguments."""
        self["immutable"] = immutable

    def link(self, callback: Any) -> Any:
        """Link a signature, which runs after success with the return value; return the link."""
        return self._link("link", callback)

    def link_error(self, errback: Any) -> Any:
        """Link an errback, which is called after a failure; return the errback."""
        return self._link("link_error", errback)

    def on_error(self, errback: Any) -> Any:
        """Do what `link_error` does; return this signature."""
        self.link_error(errback)
        return self

    def _link(self, kind: str, other: Any) -> Any:
        linked = self.linked(kind)
        if other not in linked:
            self.options[kind] = [*linked, other]
        return other

    def linked(self, kind: str) -> list[Signature]:
        """Return the linked signatures of a kind: "link" or "link_error"."""
        return as_signatures(self.options.get(kind))

    def freeze(self, _id: str | None = None, **others: Any) -> Any:
        """Give its message a task_id now; return its result, which is pending until the call.

        Raises:
            Unsupported: it is a combined signature, whose messages get their ids when they are
                stored.
        """
        if self.kind is not None:
            raise Unsupported(
                f"freeze() of a {self.kind}: its messages get their ids when they are stored: use "
                "the result of apply_async()."
            )
        return AsyncResult(self.options.setdefault("task_id", _id or uuid()))

    def stamp(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raise `Unsupported`, whose message names the alternative."""
        raise Unsupported("stamp(): set(headers=…) adds headers to a message.")

    def __or__(self, other: Any) -> Any:
        return KINDS["chain"](self, other) if isinstance(other, Signature) else NotImplemented

    def __ior__(self, other: Any) -> Any:  # the operator of dicts would merge them
        return self.__or__(other)

    def __invert__(self) -> Any:
        """Store its messages, wait for their end, and return the result: `~add.s(2, 2)`."""
        return self.apply_async().get()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone()

    def __reduce__(self) -> Any:
        return signature, (dict(self),)


KINDS[None] = Signature


def signature(
    varies: Any, args: Any = None, kwargs: Any = None, options: Any = None, **others: Any
) -> Any:
    """Return the signature of a task, of the task with this name, or of a signature's dict.

    Raises:
        InvalidTask: the value is neither a task, a name nor such a dict.
    """
    if isinstance(varies, Signature):
        return varies.clone()
    if isinstance(varies, Mapping):
        return _of(varies)
    if not isinstance(varies, str) and not hasattr(varies, "apply_async"):
        raise InvalidTask(f"{shown(varies)} is neither a task nor a signature, nor its name.")
    immutable = bool(others.pop("immutable", False))
    return Signature(varies, args, kwargs, {**(options or {}), **others}, immutable=immutable)


def maybe_signature(varies: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the dict of a signature as a signature; other values stay unchanged."""
    is_dict = isinstance(varies, Mapping) and not isinstance(varies, Signature)
    return _of(varies) if is_dict else varies


def _of(given: Mapping[str, Any]) -> Signature:
    """Return the signature of a dict, which a task got as an argument."""
    found = KINDS.get(given.get("subtask_type"))
    if found is None or not isinstance(given.get("task"), str):
        raise InvalidTask(f"{shown(given)} is not the dict of a signature.")
    made = found.__new__(found)
    dict.__init__(made, given)
    made["args"] = tuple(given.get("args") or ())
    made["kwargs"] = dict(given.get("kwargs") or {})
    made["options"] = dict(given.get("options") or {})
    made.setdefault("immutable", False)
    made._type = None
    return made


def plain(value: Any) -> Any:
    """Return arguments with signatures as plain dicts, which the codec accepts."""
    if isinstance(value, Signature) or type(value) is dict:
        return {name: plain(each) for name, each in value.items()}
    if type(value) is list:
        return [plain(each) for each in value]
    if type(value) is tuple:
        return tuple(plain(each) for each in value)
    return value


def as_signatures(given: Any) -> list[Any]:
    """Return one signature, or several, as a list of signatures."""
    if given is None:
        return []
    several: Iterable[Any]
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    return [each if isinstance(each, Signature) else signature(each) for each in several]
