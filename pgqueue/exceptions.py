"""Everything that pgqueue raises: one class a cause, its docstring the message."""


class PGQueueError(Exception):
    """Something in pgqueue went wrong."""

    def __str__(self) -> str:
        return super().__str__() or (self.__doc__ or "").strip()


class InvalidTask(PGQueueError):
    """This function or these options can't make a task."""


class InvalidArguments(PGQueueError, TypeError):
    """A task can't be called with these arguments."""


class InvalidArgument(InvalidArguments):
    """An argument can't be stored and come back as what it is."""


class PayloadTooLarge(InvalidArguments):
    """The arguments take more than 16 MiB: store the data elsewhere, and pass where it is."""


class InvalidResult(PGQueueError):
    """A task returned what can't be stored and come back as what it is."""


class UnreadablePayload(PGQueueError):
    """This JSON was not written for this task, or the task has changed since."""


class LeaseLost(PGQueueError):
    """Another worker may hold this message by now: its lease ran out, or it was cancelled."""


class TaskResultDoesNotExist(PGQueueError):
    """No message has this id: it never existed, was rolled back, or its history was purged."""


class TaskResultMismatch(PGQueueError):
    """This result belongs to another task."""


class TaskFailed(PGQueueError):
    """The task did not succeed, so it has no return value."""


class TaskTimeout(PGQueueError):
    """The task ran longer than its timeout."""


class OtherTransactionWarning(UserWarning):
    """A message was enqueued outside the transaction that is open on another database."""
