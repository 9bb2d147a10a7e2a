"""Enqueue ended messages once more, and fork messages of durable tasks."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import psycopg
from django.db import DatabaseError, connections, transaction

from pgqueue.codec.arguments import parse
from pgqueue.codec.references import referred_in
from pgqueue.database.paths import own_path
from pgqueue.engine import enqueue as enqueueing
from pgqueue.engine import steps
from pgqueue.engine.culprits import may_be_own
from pgqueue.engine.enqueue import Common
from pgqueue.engine.lookup import Found
from pgqueue.exceptions import ChannelFull, InvalidArguments, InvalidStep, PayloadTooLarge
from pgqueue.tasks import flow_results, redacting, tenants
from pgqueue.tasks.declaration import Declaration
from pgqueue.values.error_words import hint

OF_ONE_RUN = (
    *("handed_back", "continued", "dedupe_key", "replayed_from"),
    *("forked_from", "forked_after", "rerun_of"),
)
"""Keys of metadata that belong to one message alone."""


def encoded(
    task: Declaration[Any, Any], args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
) -> str | None:
    """Return other arguments as they are stored; None: there are none.

    Raises:
        InvalidArguments, InvalidArgument: the arguments do not fit the task.
    """
    if args is None and kwargs is None:
        return None
    return task.codec.encode(args or (), kwargs or {})


def rerun(task: Declaration[Any, Any], found: Found, payload: str | None = None) -> int:
    """Store a message as this one was stored, and return its id; nothing of its runs is copied.

    Args:
        payload: other arguments as JSON; None: its own.

    Raises:
        InvalidArguments: its own arguments are results of its flow, and one of them failed, is
            gone, or must not be stored. Or the database does not read a model instance among them.
            Or Python does not read its metadata.
        ChannelFull: a policy's max_size is reached.
    """
    return _store(task, found, payload, {"rerun_of": found.id})


def fork(
    task: Declaration[Any, Any], found: Found, after: str | None, payload: str | None = None
) -> int:
    """Store a message that begins with the steps of another one, and return its id.

    Args:
        after: the name of the last step that is copied; None: each step that is done.
        payload: other arguments as JSON; None: the other message's arguments.

    Raises:
        InvalidStep: the other message has done no step of this name.
        InvalidArguments: as `rerun` does.
        ChannelFull: a policy's max_size is reached.
    """
    connection = connections[task.alias]
    with transaction.atomic(using=task.alias):
        done = steps.done(connection, found.id)
        if after is not None and after not in done:
            raise InvalidStep(
                f"{task.name} #{found.id} has done no step {after!r:.99}. {hint(after, done)}"
            )
        metadata = {"forked_from": found.id} | ({} if after is None else {"forked_after": after})
        id = _store(task, found, payload, metadata)
        last = max(done.values(), default=0) if after is None else done[after]
        steps.copy(connection, found.id, id, upto=last)
    return id


def _store(
    task: Declaration[Any, Any], found: Found, payload: str | None, further: dict[str, Any]
) -> int:
    stored = _metadata_of(found)
    own = {name: value for name, value in stored.items() if name not in OF_ONE_RUN}
    common = Common(
        channel=found.channel,
        task=found.task,
        metadata=json.dumps({**own, **further}),
        options=found.options,
        priority=found.priority,
        max_attempts=found.max_attempts,
        run_at=None,
        run_after=None,
        # A task that leaves its lane while it waits is not ordered any more then.
        ordered=found.ordered or (task.ordered and not task.keeps_lane),
    )
    [id] = enqueueing.enqueue(
        connections[task.alias],
        common,
        keys=[found.key],
        payloads=[_payload(task, found, stored) if payload is None else payload],
    ).ids
    if id is None:
        raise ChannelFull(f"The channel {found.channel!r} is full, and drops further messages.")
    return id


def _metadata_of(found: Found) -> dict[str, Any]:
    try:
        metadata: dict[str, Any] = json.loads(found.metadata)
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"{found.task} #{found.id} can't be enqueued once more: Python does not read its "
            f"metadata: {error}."
        ) from error
    return metadata


def _payload(task: Declaration[Any, Any], found: Found, metadata: Mapping[str, Any]) -> str:
    """Return the arguments of a message as JSON: of one of a flow, with the results in them.

    The new message is of no flow, and takes no results as it runs.
    """
    if found.flow_id is None:
        return found.payload
    try:
        # Without results, it need not be readable here. With some, it is read as its run reads it.
        plain = parse("the payload", task.codec.opened(found.payload))
        if not (parents := referred_in(plain)):
            return found.payload
        # A worker resets the path that the project's enter() sets: here nobody else does.
        with own_path(), tenants.around_stored(found.id, metadata):
            return _with_results(task, found, plain, parents)
    except (DatabaseError, psycopg.Error):
        raise
    except Exception as error:  # also of a parent's module, as it is imported
        raise InvalidArguments(
            f"{found.task} #{found.id} can't be enqueued once more with its own arguments: "
            f"{str(error).rstrip('.')}. Give it other ones: args=, kwargs=."
        ) from error


def _with_results(
    task: Declaration[Any, Any], found: Found, plain: Any, parents: Collection[int]
) -> str:
    taken = flow_results.results(task.alias, parents, since=found.created_at)
    for id, each in taken.items():
        if each.error is not None:
            raise each.error
        if each.is_encrypted and not task.encrypted:
            raise InvalidArguments(
                f"the result of {each.task} #{id} is encrypted, and {task.name} is not"
            )
    shown = None if task.encrypted else redacting.exposed(task.name, plain, taken)
    if shown is not None:
        raise InvalidArguments(
            f"the result of {taken[shown].task} #{shown} is redacted, and an argument of "
            f"{task.name} would show it"
        )
    try:
        # An instance of a model is read from a table, which may be missing in the tenant.
        with transaction.atomic(using=task.alias):
            args, kwargs = task.codec.decode(found.payload, lambda ids: taken)
            return task.codec.encode(args, kwargs)
    except Exception as error:
        if type(error) in (InvalidArguments, PayloadTooLarge):
            raise
        if isinstance(error, DatabaseError | psycopg.Error) and not may_be_own(error):
            raise
        # Other errors may quote values, also redacted ones, and a traceback has their cause.
        raise InvalidArguments(
            f"they, or results among them, do not fit {task.name} ({type(error).__name__})"
        ) from None
