"""The calls that the function of a batch task gets: one for each message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec

from pgqueue.exceptions import InvalidArguments
from pgqueue.tasks import redacting
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.redacting import RedactedColumn

P = ParamSpec("P")


@dataclass(eq=False)
class BatchContext(TaskContext):
    """The context of one message of a batch."""

    beside: Sequence[TaskContext] = field(default=(), init=False, repr=False)
    """The contexts of all messages of the batch: an error may quote the values of any."""

    def stored_columns(self) -> Iterable[RedactedColumn]:
        """Return the values of the whole batch, to search them for redacted values."""
        return redacting.columns_of(each.claim for each in self.beside)


@dataclass(eq=False)
class BatchCall(Generic[P]):
    """One message of a batch. A function with `batch` takes a list of such calls.

    `BatchCall[int, str]` is a call with an int and a str; `BatchCall[...]` has any arguments.

    Attributes:
        args: the arguments by position.
        kwargs: the arguments by name.
        error: the error that `fail()` was given; None: the call has not failed.
    """

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    _context: TaskContext | None = field(default=None, repr=False)
    error: BaseException | None = field(default=None, init=False)

    @property
    def context(self) -> TaskContext:
        """The context of this message: its id, attempt, metadata and progress.

        Raises:
            InvalidArguments: the function was called directly, without a message.
        """
        if self._context is None:
            raise InvalidArguments(
                "This call has no context: it is a direct call, without a message. Enqueue the "
                "task, or read only args and kwargs."
            )
        return self._context

    @property
    def id(self) -> str:
        """The message's id.

        Raises:
            InvalidArguments: the function was called directly, without a message.
        """
        return self.context.id

    def fail(self, error: BaseException) -> None:
        """Fail this message alone: the other calls of the batch may succeed.

        The message ends as if its own run had raised `error`. So an exception has it retried by
        the task's policy, and `Retry`, `Discard` and `Cancel` have their usual meaning. The
        function goes on. If the call has failed before, the last error counts.

        Args:
            error: the exception.

        Raises:
            TypeError: `error` is no exception.
        """
        if not isinstance(error, BaseException):
            raise TypeError(
                f"BatchCall.fail() takes an exception, not {error!r:.200}: "
                "call.fail(ValueError(…)), for example."
            )
        self.error = error
