"""Signatures, which can be called. What is made of several of them is not taken over."""

from __future__ import annotations

from typing import Any, NoReturn

from pgqueue.compat.celery.calling import FLOWS
from pgqueue.compat.celery.exceptions import Unsupported


class Signature:
    """A call of a task, to be made later.

    Args:
        task: what is called, or its name.
        args, kwargs: the arguments; those that are given when it is called come before `args`.
        options: those of `apply_async`.
        immutable: it takes no other arguments.
    """

    def __init__(
        self,
        task: Any,
        args: Any = None,
        kwargs: Any = None,
        options: Any = None,
        *,
        immutable: bool = False,
    ) -> None:
        self._task = task
        self.args = tuple(args or ())
        self.kwargs = dict(kwargs or {})
        self.options = dict(options or {})
        self.immutable = immutable

    def __repr__(self) -> str:
        given = [repr(each) for each in self.args]
        given += [f"{name}={value!r}" for name, value in self.kwargs.items()]
        return f"{self.name}({', '.join(given)})"

    @property
    def name(self) -> str:
        """The task's name."""
        return self._task if isinstance(self._task, str) else str(self._task.name)

    @property
    def task(self) -> str:
        """The task's name."""
        return self.name

    @property
    def type(self) -> Any:
        """The task."""
        from pgqueue.compat.celery.declaring import found

        return found(self._task) if isinstance(self._task, str) else self._task

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the task here and now."""
        partial = self.clone(args, kwargs)
        return partial.type(*partial.args, **partial.kwargs)

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Store a message, with these arguments before its own."""
        return self.apply_async(args, kwargs)

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Store a message, with these arguments before its own."""
        partial = self.clone(args, kwargs, **options)
        return partial.type.apply_async(partial.args, partial.kwargs, **partial.options)

    def apply(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        """Run the task here and now."""
        partial = self.clone(args, kwargs, **options)
        return partial.type.apply(partial.args, partial.kwargs, **partial.options)

    def clone(self, args: Any = None, kwargs: Any = None, **options: Any) -> Signature:
        """Return a copy with more arguments, unless it is immutable, and other options."""
        if self.immutable:
            args = kwargs = None
        return Signature(
            self._task,
            (*(args or ()), *self.args),
            {**self.kwargs, **(kwargs or {})},
            {**self.options, **options},
            immutable=self.immutable,
        )

    def set(self, immutable: bool | None = None, **options: Any) -> Signature:
        """Change options; return this signature."""
        self.options.update(options)
        if immutable is not None:
            self.immutable = immutable
        return self

    def set_immutable(self, immutable: bool) -> None:
        """Say whether it takes other arguments."""
        self.immutable = immutable

    def link(self, callback: Any) -> NoReturn:
        """Say what takes its place."""
        raise Unsupported(f"{self!r}.link(): {FLOWS}.")

    def link_error(self, errback: Any) -> NoReturn:
        """Say what takes its place."""
        raise Unsupported(f"{self!r}.link_error(): {FLOWS}.")

    def __or__(self, other: Any) -> NoReturn:
        raise Unsupported(f"{self!r} | {other!r}: {FLOWS}.")


def signature(
    varies: Any, args: Any = None, kwargs: Any = None, options: Any = None, **others: Any
) -> Signature:
    """Return a call to be made later, of a task or of the one that has this name."""
    if isinstance(varies, Signature):
        return varies.clone()
    immutable = bool(others.pop("immutable", False))
    return Signature(varies, args, kwargs, {**(options or {}), **others}, immutable=immutable)


def _absent(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise Unsupported(f"{name}(): {FLOWS}.")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Say what takes its place."
    return refuse


chain = _absent("chain")
group = _absent("group")
chord = _absent("chord")
chunks = _absent("chunks")
xmap = _absent("xmap")
xstarmap = _absent("xstarmap")
