"""Signals of what happens to messages, and the one place that words the log.

Receivers are called where it happened: in the producer's transaction, or in the worker's
thread. An exception in a receiver is logged and stops nothing. In a transaction each receiver runs
in a savepoint: an error of the database undoes the receiver's own writes and nothing else.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.dispatch import Signal, receiver

from pgqueue.calls.outcomes import Died
from pgqueue.calls.stand_ins import stand_in
from pgqueue.database import migration_check
from pgqueue.database.savepoints import GuardedSignal
from pgqueue.redaction import Hidden
from pgqueue.states import State
from pgqueue.values import error_words, tracebacks
from pgqueue.values.escaping import Lines, logger_of

logger = logger_of("pgqueue")

task_enqueued = GuardedSignal(use_caching=True)
"""Sent with `task_result`, inside the transaction that stored it; with enqueue_on_commit, inside
the one at whose commit it will be stored. Sender: the Task."""

task_started = GuardedSignal(use_caching=True)
"""Sent with `context` before a run begins: in the thread that will run it, or, for an async task,
in a thread beside the event loop. Sender: the Task. What must surround the run itself, such as a
context variable, is a context manager for `pgqueue.tasks.run_middleware`."""

task_finished = GuardedSignal(use_caching=True)
"""Sent with `context` and `ending` after a run has ended: in the thread that ran it, or, for an
async task, in a thread beside the event loop. It is sent before the message is settled; for an
atomic task after that. Once for each run, however often an atomic one is repeated. Sender: the
Task."""

task_unknown = Signal()
"""Sent with `name` and `delay` when a worker hands back a message whose task it doesn't know."""

handler_missing = Signal()
"""Sent with `channel` and `delay` when a worker hands back a raw message: the handler of its
channel was removed meanwhile, or can't be looked up. Without a handler workers claim none."""

lease_lost = Signal()
"""Sent with `claim` when a worker finds that a message is no longer its own."""

timeout_ignored = Signal()
"""Sent with `claim` and `stack`, its text, when a run has not ended 5 s after its timeout."""

run_overran = Signal()
"""Sent with `claim` and `stack`, its text, when a run has not ended at its hard timeout: it has
failed, and the worker ends, so that another process takes its place."""

message_rescued = Signal()
"""Sent with `rescued` for each message that was taken from a silent worker."""

schedule_failed = Signal()
"""Sent with `name` and `error` when a schedule's tick had no message, or waits for it for over a
minute; and with what the log keeps `hidden` of the error."""

schedule_taken = Signal()
"""Sent with `name` when a schedule in code has the name of one that was added in the admin."""

subscription_taken = Signal()
"""Sent with `name` when a subscription in code has the name of one that was added in the admin."""

feed_started = Signal()
"""Sent with `slot` when this process begins to follow the WAL."""

slot_lost = Signal()
"""Sent with `slot` when another one is made in its place. `is_there`: the slot is not missing; its
WAL was removed, or `is_unreadable`, since its publication was made later. No event is lost."""


webhook_stopped = Signal()
"""Sent with `name` and the `reason` when a worker pauses a webhook whose endpoint has failed for
too long, or disables one whose endpoint is gone. Sender: the model."""

worker_starting = Signal()
"""Sent with `channels` before a worker claims anything, once the tables are there. Sender: the
Worker's class."""

worker_started = Signal()
"""Sent with `channels` when a worker serves them. Sender: the Worker's class."""

tables_missing = Signal()
"""Sent with `database` and what is `missing`, names of migrations or an error's text, by a worker
that waits for `manage.py migrate`: once, not each time it looks."""

channels_unseen = Signal()
"""Sent once by a worker that begins, with the `channels` that it serves and that no task, message,
policy or configuration names, and with the channels that are `known`."""

worker_stopping = Signal()
"""Sent with `requests`, how often it was asked to, when a worker begins to stop; 0: it retires, or
has nothing left to drain. Tasks may be running. Sender: the Worker's class."""

worker_stopped = Signal()
"""Sent with `released`, the messages handed back, when a worker has stopped."""

worker_died = Signal()
"""Sent with `pid` and `status` by who runs several processes, when one of them died; negative: by
that signal."""

job_failed = Signal()
"""Sent with `job`, its name, and `reason` by the driver of a cluster whose worker ended with it."""

worker_retiring = Signal()
"""Sent with `pid` by a process in whose place another comes, and what it `reached`: as many
`tasks`, `megabytes`, `seconds` or `seconds without work` as it may have."""

worker_too_large = Signal()
"""Sent with `pid`, `megabytes` and the `most` it may have by a process that has run nothing yet."""

worker_crowded = Signal()
"""Sent with `retiring` by who runs several processes, when it starts none: so many have not ended
in whose place others have come."""

loop_blocked = Signal()
"""Sent with `stack`, its text, when a task has let the event loop do nothing else for 10 s."""

worker_occupied = Signal()
"""Sent with `seconds` by a worker none of whose threads has been free for longer than
`--max-busy`."""

service_stuck = Signal()
"""Sent with `service` by a worker that cuts the connection on which this waits for too long."""

worker_stuck = Signal()
"""Sent with `services` by a worker that ends since these have done nothing for too long."""

worker_cut_short = Signal()
"""Sent by a worker that ends without having written down or handed back everything: with how many
messages are `left` to their leases, and the `error` on account of which; None: for want of time."""

row_set_aside = Signal()
"""Sent with `service`, the `row` (its table and id) and `error`, a text, when one row makes a
statement fail: the other rows go on, and this one is tried again after a minute."""

event_set_aside = Signal()
"""Sent with `position` and `error`, a text, when the dispatch can make no message of an event. It
goes on behind that event, and a dead letter on the channel `subscriptions` names it."""

subscription_paused = Signal()
"""Sent with `name` and `error`, a text, when the dispatch pauses a subscription that can't be
matched."""

service_failed = Signal()
"""Sent with `service` and `error` when a part of the worker failed and will try again."""


def send(signal: Signal, sender: Any, **named: Any) -> None:
    """Send a signal of the worker. An error of a receiver is logged and never leaves this function.

    Use this instead of `send_robust`, which catches no SystemExit: a receiver must not end the
    worker. If a receiver raises one, those connected after it do not receive this signal.
    """
    try:
        signal.send_robust(sender, **named)
    except BaseException:
        with suppress(BaseException):
            logger.exception("A receiver of a signal failed")


def log_finished(task: Any, context: Any, ending: Any, hiding: Callable[[Any], Hidden]) -> None:
    """Log how a run ended, a success only for debugging.

    Called, not sent: as a receiver it would cost more than small tasks.

    A dead letter is logged as an error, which error trackers report, and a retry as a warning. An
    error that the task expects is one line of information.

    Args:
        hiding: returns, of the context, what is kept out of the log.
    """
    if ending.error is not None:
        error = stand_in(ending.error, hiding(context))
        if task.is_expected(ending.error):
            logger.info(
                "%s #%s failed on attempt %s, as it may: %r: %s",
                task.name,
                context.id,
                context.attempt,
                error,
                ending.consequence,
                extra=fields_of(task, context),
            )
            return
        logger.log(
            logging.ERROR if isinstance(ending, Died) else logging.WARNING,
            "%s #%s failed on attempt %s: %s",
            task.name,
            context.id,
            context.attempt,
            ending.consequence,
            exc_info=(type(error), error, tracebacks.shown(error)),
            extra=fields_of(task, context),
        )
    else:
        logger.debug(
            "%s #%s %s", task.name, context.id, ending.word, extra=fields_of(task, context)
        )


def fields_of(task: Any, context: Any) -> dict[str, Any]:
    """Return the fields of a run for a record of the log: each line about one run has them.

    They are passed as `extra`. `logs.RunFilter` adds them to the lines of the task itself.
    """
    claim = context.claim
    return {
        "message_id": context.id,
        "task": task.name,
        "attempt": context.attempt,
        "channel": claim.channel,
        "key": claim.key,
        "flow_id": "" if claim.flow_id is None else str(claim.flow_id),
    }


@receiver(task_unknown)
def _log_unknown(sender: Any, name: str, delay: float, **kwargs: Any) -> None:
    logger.warning(
        "No task is named %s here: its messages are handed back, the first for %d s. "
        "Is its app in INSTALLED_APPS, or is this worker older than who enqueued it?",
        name,
        delay,
    )


@receiver(handler_missing)
def _log_missing(sender: Any, channel: str, delay: float, **kwargs: Any) -> None:
    logger.warning(
        "The channel %s names no handler any more: its raw messages are handed back, the first for "
        "%d s.",
        channel,
        delay,
    )


@receiver(lease_lost)
def _log_lost(sender: Any, claim: Any, **kwargs: Any) -> None:
    logger.warning(
        "%s #%s: the lease was lost; what it did is not recorded",
        claim.task,
        claim.id,
        extra={
            "message_id": str(claim.id),
            "task": claim.task,
            "attempt": claim.attempt,
            "channel": claim.channel,
            "key": claim.key,
            "flow_id": "" if claim.flow_id is None else str(claim.flow_id),
        },
    )


@receiver(timeout_ignored)
def _log_ignored(sender: Any, claim: Any, stack: str, **kwargs: Any) -> None:
    logger.warning("%s #%s goes on after its timeout, in\n%s", claim.task, claim.id, Lines(stack))


@receiver(run_overran)
def _log_overran(sender: Any, claim: Any, stack: str, **kwargs: Any) -> None:
    logger.error(
        "%s #%s has not ended at its hard timeout: it has failed, and this process ends, with a "
        "thread that is stuck in\n%s",
        claim.task,
        claim.id,
        Lines(stack),
    )


@receiver(message_rescued)
def _log_rescued(sender: Any, rescued: Any, **kwargs: Any) -> None:
    level = logging.ERROR if rescued.state == State.DEAD else logging.WARNING
    logger.log(level, "%s #%s lost its worker; now %s", rescued.task, rescued.id, rescued.state)


@receiver(schedule_failed)
def _log_schedule(
    sender: Any, name: str, error: BaseException, hidden: Hidden | None = None, **kwargs: Any
) -> None:
    shown = stand_in(error, hidden or Hidden(()))
    logger.error("The schedule %s enqueued nothing: %s", name, shown, exc_info=shown)


@receiver(subscription_taken)
def _log_subscription_taken(sender: Any, name: str, **kwargs: Any) -> None:
    logger.warning(
        "The subscription %s of the code is left out: another of that name exists. "
        "Delete that one, or rename this.",
        name,
    )


@receiver(subscription_paused)
def _log_subscription_paused(sender: Any, name: str, error: str, **kwargs: Any) -> None:
    logger.error(
        "The subscription %s can't be matched, and is paused: %s. It loses no event: mend it, and "
        "resume it.",
        name,
        error,
    )


@receiver(event_set_aside)
def _log_event_set_aside(sender: Any, position: int, error: str, **kwargs: Any) -> None:
    logger.error(
        "No message can be made of the event at position %d: %s. The dispatch goes on behind it; "
        "its dead letter is on the channel subscriptions.",
        position,
        error,
    )


@receiver(row_set_aside)
def _log_row_set_aside(sender: Any, service: str, row: str, error: str, **kwargs: Any) -> None:
    logger.error("%s fails because of %s, and goes on without it: %s", service, row, error)


@receiver(webhook_stopped)
def _log_webhook_stopped(sender: Any, name: str, reason: str, **kwargs: Any) -> None:
    logger.warning(
        "Nothing is posted to the webhook %s any more: %s Its events wait in the channel or in the "
        "log until it is resumed, or are dead letters if it was disabled.",
        name,
        reason,
    )


@receiver(schedule_taken)
def _log_taken(sender: Any, name: str, **kwargs: Any) -> None:
    logger.warning(
        "The schedule %s of the code is left out: another of that name exists. "
        "Delete that one, or rename this.",
        name,
    )


@receiver(feed_started)
def _log_feed_started(sender: Any, slot: str, **kwargs: Any) -> None:
    logger.info("Following the WAL, by the slot %s", slot)


@receiver(slot_lost)
def _log_slot_lost(
    sender: Any, slot: str, is_there: bool, is_unreadable: bool, **kwargs: Any
) -> None:
    why = "has lost its WAL (see max_slot_wal_keep_size)" if is_there else "is missing"
    if is_unreadable:
        why = "keeps WAL that is older than its publication, and can't be read"
    logger.warning(
        "The replication slot %s %s; another is made. The events are in their tables: none is lost",
        slot,
        why,
    )


@receiver(worker_started)
def _log_started(sender: Any, channels: Any, **kwargs: Any) -> None:
    logger.info("Serving %s", "every channel" if channels is None else ", ".join(channels))


@receiver(tables_missing)
def _log_tables(sender: Any, database: str, missing: Any, **kwargs: Any) -> None:
    logger.warning(
        "The database %s lacks tables, or has old ones (%s): %s. This worker waits for that.",
        database,
        missing if isinstance(missing, str) else "not applied: " + ", ".join(missing),
        migration_check.remedy(database),
    )


@receiver(channels_unseen)
def _log_unseen(sender: Any, channels: Any, known: Any, **kwargs: Any) -> None:
    suggestions = (error_words.suggestion(name, known) for name in channels)
    logger.warning(
        "No task, message, policy or configuration names %s, which this worker serves. %s",
        ", ".join(map(repr, channels)),
        " ".join(
            [
                *filter(None, dict.fromkeys(suggestions)),
                f"Known channels: {error_words.listed(known)}."
                if known
                else "No channel is known.",
            ]
        ),
    )


@receiver(worker_stopped)
def _log_stopped(sender: Any, released: int, **kwargs: Any) -> None:
    logger.info("Stopped; %d messages handed back", released)


@receiver(worker_died)
def _log_died(sender: Any, pid: int, status: int, **kwargs: Any) -> None:
    logger.error("The process %d died with status %d; what it held is taken from it", pid, status)


@receiver(job_failed)
def _log_job_failed(sender: Any, job: str, reason: str, **kwargs: Any) -> None:
    logger.error("The worker in %s is gone: %s; what it held is taken from it", job, reason)


@receiver(worker_retiring)
def _log_retiring(sender: Any, pid: int, reached: dict[str, float], **kwargs: Any) -> None:
    what = ", ".join(f"{count:.0f} {unit}" for unit, count in reached.items())
    logger.info("The process %d has come to %s; another takes its place", pid, what)


@receiver(worker_too_large)
def _log_too_large(sender: Any, pid: int, megabytes: float, most: float, **kwargs: Any) -> None:
    logger.warning(
        "The process %d has %.0f megabytes before it runs anything: with --max-memory %.0f "
        "it is replaced every few seconds",
        pid,
        megabytes,
        most,
    )


@receiver(worker_crowded)
def _log_crowded(sender: Any, retiring: int, **kwargs: Any) -> None:
    logger.warning("No process is started: %d that were replaced have not ended yet", retiring)


@receiver(loop_blocked)
def _log_blocked(sender: Any, stack: str, **kwargs: Any) -> None:
    text = "No async task has gone on for 10 s: the event loop is blocked by\n%s"
    logger.warning(text, Lines(stack))


@receiver(worker_occupied)
def _log_occupied(sender: Any, seconds: float, **kwargs: Any) -> None:
    logger.error("No thread has been free for %.0f s: SIGUSR1 tells where they are", seconds)


@receiver(service_stuck)
def _log_service_stuck(sender: Any, service: str, **kwargs: Any) -> None:
    logger.error("%s has had no answer for too long; its connection is cut", service)


@receiver(worker_stuck)
def _log_stuck(sender: Any, services: Any, **kwargs: Any) -> None:
    logger.critical("%s: nothing done for too long; the worker ends itself", ", ".join(services))


@receiver(worker_cut_short)
def _log_cut_short(sender: Any, left: int, error: BaseException | None, **kwargs: Any) -> None:
    why = error or "there was no time to write everything down"
    logger.error("Messages that are left to their leases: %d; %s", left, why)


@receiver(service_failed)
def _log_failed(sender: Any, service: str, error: BaseException, **kwargs: Any) -> None:
    # The text alone tells the remedy for missing tables; a traceback would hide it.
    lack = migration_check.lack_of(error)
    logger.error(
        "%s failed and will try again: %s",
        service,
        lack or error,
        exc_info=None if lack else error,
    )
