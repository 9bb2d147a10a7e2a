"""Every error that pgqueue raises: one class for each cause; its docstring is the message.

Errors that users catch are also names of `pgqueue`: `from pgqueue import TaskFailed`.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pgqueue.values.number_checks import as_timedelta


class PGQueueError(Exception):
    """Something in pgqueue went wrong."""

    def __str__(self) -> str:
        return super().__str__() or (self.__doc__ or "").strip()


class InvalidTask(PGQueueError):
    """The function or an option of a task is invalid."""


class InvalidArguments(PGQueueError, TypeError):
    """The arguments do not fit the task's function."""


class InvalidArgument(InvalidArguments):
    """An argument is of a type that the codec cannot store and read back."""


class InvalidType(PGQueueError, ValueError):
    """The registration of a type is invalid."""


class PayloadTooLarge(InvalidArguments):
    """The arguments take more than 16 MiB: store the data elsewhere, and pass its location."""


class ChannelFull(PGQueueError):
    """The channel, or this key of it, has as many messages as its policy allows."""


class BatchTooLarge(PGQueueError):
    """A batch may have 500 ordered keys, and 500 keys with a max_size: each takes a lock."""


class WriteConflict(PGQueueError):
    """Another write was committed under this application id."""


class BackfillConflict(PGQueueError):
    """Another backfill has this name."""


class DuplicateMessage(PGQueueError):
    """A message with this dedupe key exists already."""


class HoldExpired(PGQueueError):
    """The message is not held any more: it was committed or abandoned, or its time ran out."""


class InvalidResult(PGQueueError):
    """The value that a task returned is of a type that the codec cannot store and read back."""


class InvalidProgress(PGQueueError):
    """The progress of a task is of a type that the codec cannot store and read back."""


class UnreadablePayload(PGQueueError):
    """This JSON was not written for this task, or the task has changed since."""


class NewerPayload(UnreadablePayload):
    """Newer code has written this JSON, perhaps: it has more than this code knows.

    That is a field of a dataclass, a member of an enum, a type or a parameter. A worker hands the
    message back to workers that know it, and counts no attempt for about an hour.
    """


class DecryptionFailed(UnreadablePayload):
    """The stored values of this message are encrypted, and no key decrypts them."""


class MissingEncryptionKey(PGQueueError):
    """This message is encrypted, and PGQUEUE['ENCRYPTION_KEYS'] has no key."""


class LeaseLost(PGQueueError):
    """Another worker may have this message by now: its lease ran out, or it was cancelled."""


class UnreadableMessage(PGQueueError):
    """A value of the message's row is beyond what Python can hold, such as the time `infinity`.

    It is the class of the error that its dead letter has; nothing raises it.
    """


class TaskResultDoesNotExist(PGQueueError):
    """No message has this id: it never existed, was rolled back, or its history was purged."""


class TaskResultMismatch(PGQueueError):
    """This result belongs to another task."""


class TaskFailed(PGQueueError):
    """The task did not succeed, so it has no return value."""


class TaskTimeout(PGQueueError):
    """The task ran longer than its timeout."""


class StepTimeout(TaskTimeout):
    """A step of a durable task ran longer than its timeout."""


class TransactionLeftOpen(PGQueueError):
    """A task, handler or hook left a transaction open, so what it wrote there was rolled back.

    Args:
        aliases: the databases, as DATABASES names them.
    """

    def __init__(self, aliases: Sequence[str]) -> None:
        super().__init__(
            f"A transaction on the database {', '.join(aliases)} was still open when the "
            "task, handler or hook ended: what was written in it is rolled back. Use "
            "transaction.atomic(); or commit, and leave each COPY and pipeline, before it ends."
        )


class ReaderLost(PGQueueError):
    """The process of a group's reader ended each time that the event was handled.

    Args:
        times: how often.
    """

    def __init__(self, times: int) -> None:
        super().__init__(
            f"The process of the group's reader ended {times} times while this event was handled, "
            "or was cut off from the database for longer than its lease. See the logs of those "
            "processes: a crash, or too little memory."
        )


class OtherTransactionWarning(UserWarning):
    """A message was enqueued outside the transaction that is open on another database."""


class WaitTimeout(PGQueueError, TimeoutError):
    """The message did not end within the timeout; it goes on."""


class WaitInTransaction(PGQueueError):
    """A message can't end before the transaction that enqueues it commits: wait after that."""


class ChannelNotWatched(PGQueueError):
    """Notices are not switched on for this channel."""


class NothingToHear(PGQueueError):
    """Notifications don't pass a transaction pooler: watch() an alias that connects without one."""


class InvalidMessage(PGQueueError):
    """The message or one of its options is invalid."""


class RetryRequested(PGQueueError):
    """The consumer handed it back, to be tried again."""


class ReceiverClosed(PGQueueError):
    """This receiver is closed: receive() makes another."""


class InvalidChannel(PGQueueError):
    """The name or an option of a channel is invalid."""


class InvalidPolicy(PGQueueError):
    """An option of a policy is invalid: the message names the option and the reason."""


class InvalidBackoff(PGQueueError, ValueError):
    """A backoff is invalid: the message names the option and the reason."""


class InvalidSchedule(PGQueueError, ValueError):
    """A schedule is invalid: the message names the option and the reason."""


class InvalidTenant(PGQueueError, ValueError):
    """A tenant's name is invalid: the message says who gave it, and the reason."""


class TenantUnavailable(PGQueueError):
    """The worker failed to enter this message's tenant: perhaps it was deleted."""


class UnknownTask(PGQueueError):
    """No task has this name here: is its app in INSTALLED_APPS?"""


class UnknownOperation(PGQueueError):
    """The operation was not begun by the admin or by `pgqueue.operating.bulk.start()`."""


class TickMissed(PGQueueError):
    """A lock delayed the tick for a minute: it is skipped, as missed ticks are."""


class ChannelPaused(PGQueueError):
    """Releasing a paused channel would run the messages that it keeps back: resume it first."""


class InvalidEvent(PGQueueError):
    """The event is invalid: the message names its part and the reason."""


class InvalidFilter(PGQueueError, ValueError):
    """A filter of events is invalid: the message names the option and the reason."""


class UnreadableEvent(PGQueueError):
    """This event is damaged, or was not published as this class, or the class has changed since."""


class EndlessEvents(PGQueueError):
    """Events still lead to further events after many rounds of `pgqueue.testing.run_all()`.

    Usually a handler or a task publishes an event that it is given itself.
    """

    def __init__(self, rounds: int, topics: list[str]) -> None:
        super().__init__(
            f"Events still lead to further events after {rounds} rounds. The last topics are "
            f"{', '.join(topics)}: does a handler or a task publish an event that it is given "
            "itself?"
        )
        self.rounds = rounds
        self.topics = topics


class EventsRemoved(PGQueueError):
    """Retention has removed events after this position: a reader that continues would miss them.

    Attributes:
        after: where the reader is.
        floor: the last position that was removed; the first to be read is the next one.
    """

    def __init__(self, after: int, floor: int, *, remedy: str = "") -> None:
        remedy = remedy or f"Read from after={floor} to continue without them."
        super().__init__(
            f"Events after position {after} were removed by retention, up to {floor}. {remedy}"
        )
        self.after = after
        self.floor = floor


class PositionAhead(PGQueueError):
    """The log is not as long as this: the position is of another log, or of a later state of it.

    Attributes:
        after: where the reader is.
        head: the last position of the log.
    """

    def __init__(self, after: int, head: int) -> None:
        super().__init__(
            f"The log ends at position {head}, before {after}: was the database restored from a "
            "backup, or is this the position of another one?"
        )
        self.after = after
        self.head = head


class FeedUnavailable(PGQueueError):
    """The feed cannot follow the WAL: the message has the reason and a remedy."""


class InvalidGroup(PGQueueError, ValueError):
    """A group of readers is invalid: the message names the option and the reason."""


class InvalidSubscription(PGQueueError, ValueError):
    """A subscription is invalid: the message names the option and the reason."""


class InvalidSecret(PGQueueError, ValueError):
    """The secret of a webhook is invalid: the message has the reason."""


class InvalidWebhook(PGQueueError, ValueError):
    """A webhook is invalid: the message names the option and the reason."""


class DeliveryFailed(PGQueueError):
    """The endpoint of a webhook did not take what was posted to it.

    Attributes:
        backoff: of the webhook; None: the backoff of the settings.
        asked_for: how long the endpoint asks to be left alone.
    """

    def __init__(
        self, text: str = "", *, backoff: Any = None, asked_for: timedelta | None = None
    ) -> None:
        super().__init__(text)
        self.backoff = backoff
        self.asked_for = asked_for

    def __str__(self) -> str:
        return Exception.__str__(self) or "The endpoint did not take what was posted to it."


class WebhookDisabled(PGQueueError):
    """The webhook is disabled, so nothing is posted to its endpoint: replay this when it is not."""


class InvalidFlow(PGQueueError, ValueError):
    """A flow, or an operation on it, is invalid: the message has the reason."""


class FlowDoesNotExist(PGQueueError):
    """There is no flow with this id."""


class FlowFailed(PGQueueError):
    """A flow that another flow waits for has failed: the message says how, and what to do.

    Attributes:
        flow_id: of the flow that has failed.
        failed: the number of its dead messages.
    """

    def __init__(self, text: str = "", *, flow_id: int | str = "", failed: int = 0) -> None:
        super().__init__(text)
        self.flow_id = str(flow_id)
        self.failed = failed

    def __str__(self) -> str:
        return Exception.__str__(self) or "A flow that another flow waits for has failed."


class ParentFailed(PGQueueError):
    """A message that another one waited for did not succeed.

    A task with on_failure="run" gets it in the place of the result.

    Attributes:
        message_id: the parent's id.
        task: the name of the parent's task.
        outcome: dead, cancelled, discarded or expired. A parent that was replayed has its state.
        error: the last error: a dict of class, message and traceback. None: there was none.
    """

    def __init__(
        self,
        message_id: int | str = "",
        task: str = "",
        outcome: str = "",
        error: dict[str, Any] | None = None,
    ) -> None:
        said = f": {error['class']}: {error['message']}" if error else ""
        super().__init__(f"{task} #{message_id} is {outcome}{said}" if task else "")
        self.message_id = str(message_id)
        self.task = task
        self.outcome = outcome
        self.error = error

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message_id, self.task, self.outcome, self.error)


class InvalidStep(PGQueueError, ValueError):
    """A step of a durable task is invalid: the message names it and the reason."""


class StepFailed(PGQueueError):
    """A step of a durable task has failed for good: each run of the task gets this error there.

    Attributes:
        step: the name of the step.
        class_name, text, traceback: the error of its last try; the class as an import path.
        tries: the number of its tries.
    """

    def __init__(
        self,
        step: str = "",
        class_name: str = "",
        text: str = "",
        traceback: str = "",
        tries: int = 1,
    ) -> None:
        super().__init__(f"The step {step!r} has failed: {class_name}: {text}" if step else "")
        self.step = step
        self.class_name = class_name
        self.text = text
        self.traceback = traceback
        self.tries = tries

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.step, self.class_name, self.text, self.traceback, self.tries)


class TooManySteps(PGQueueError):
    """A durable run has as many steps as it may have: end it, and go on by `continue_as()`."""


class MessageEnded(PGQueueError):
    """The message has ended, or there is none with this id: no signal reaches it."""


class InvalidTracking(PGQueueError, ValueError):
    """A table or an option of its tracking is invalid: the message names it and the reason."""


class EndOfRun(BaseException):
    """A task raises it to end its run in a certain way.

    It is not an error, and therefore not an Exception, as asyncio.CancelledError is not: an
    `except Exception` in a task must not catch it. `finally` blocks run and transactions roll back
    as for any exception.
    """

    def __str__(self) -> str:
        return super().__str__() or (self.__doc__ or "").partition("\n")[0]


class Retry(EndOfRun):
    """The task asked to be tried again.

    This counts as a failure: the last attempt makes a dead letter, as with any error. The effects
    of an atomic task roll back.

    Args:
        delay: seconds or a timedelta to wait; None: as long as the task's backoff says.
    """

    def __init__(self, delay: float | timedelta | None = None) -> None:
        super().__init__()
        self.delay = None if delay is None else as_timedelta(delay)


class Defer(EndOfRun):
    """The task asked to be run again later.

    This is not a failure, and is not counted, however often it happens. The effects of an atomic
    task are committed, and its progress with them.

    Args:
        delay: seconds or a timedelta to wait.
        progress: the next run finds it in `context.progress`; None: unchanged.
    """

    def __init__(self, delay: float | timedelta = 0, progress: Any = None) -> None:
        super().__init__()
        self.delay = as_timedelta(delay)
        self.progress = progress


class Suspend(EndOfRun):
    """A durable task waits. The worker catches it; nothing else should.

    Args:
        ending: what the worker writes.
    """

    def __init__(self, ending: Any = None) -> None:
        super().__init__()
        self.ending = ending


class Discard(EndOfRun):
    """The task decided that its message need not run.

    `Discard("why")` ends the message as discarded; the reason is kept with its errors. The effects
    of an atomic task roll back.
    """


class Cancel(EndOfRun):
    """The task cancelled its message.

    `Cancel("why")` ends the message as cancelled; the reason is kept with its errors. The effects
    of an atomic task roll back.
    """
