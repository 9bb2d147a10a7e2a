"""Flows in any state, for pages that show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.utils import timezone

from pgqueue.engine import enqueue, flows
from pgqueue.engine.flows import Waits
from pgqueue.models import Flow, History, Message
from pgqueue.states import Outcome, State

OF_HISTORY: dict[str, Any] = {
    "channel": "default",
    "key": "",
    "payload": {"args": [], "kwargs": {}},
    "metadata": {},
    "priority": 0,
    "attempt": 1,
    "failures": 0,
    "lost": 0,
    "max_attempts": 5,
    "ordered": False,
    "errors": [],
    "txid": 1,
}


class Member(NamedTuple):
    """A message of a flow.

    Attributes:
        word: its state, or its outcome.
        parents: their places in the flow.
        began, ended: seconds after the flow was stored.
    """

    task: str
    word: str = State.READY
    parents: Sequence[int] = ()
    began: float | None = None
    ended: float | None = None
    on_failure: str = "wait"


class Stored(NamedTuple):
    """A flow that was stored."""

    id: int
    ids: list[int]

    @property
    def path(self) -> str:
        """The address of its page."""
        return f"/admin/pgqueue/flow/{self.id}/change/"


def store(
    name: str,
    members: Sequence[Member],
    *,
    at: datetime | None = None,
    handler: int | None = None,
    **changed: Any,
) -> Stored:
    """Store a flow as it is given, whatever would have led to that.

    Args:
        at: when it was stored. None: an hour ago.
        handler: the place of the message that runs at its end.
        changed: other columns of its row.
    """
    connection.ensure_connection()
    queue: Any = connection.connection
    at = at or timezone.now() - timedelta(hours=1)
    flow_id = flows.reserve(queue)
    ids = enqueue.reserve(queue, len(members)) if members else []
    flows.begin(queue, flow_id, name, handler_id=None if handler is None else ids[handler])
    Flow.objects.filter(pk=flow_id).update(created_at=at, **changed)
    blocked = []
    for id, member in zip(ids, members, strict=True):
        _store_member(flow_id, id, member, at)
        parents = sorted(ids[each] for each in member.parents)
        if parents:
            blocked.append(Waits(id, parents, member.on_failure))
    flows.block(queue, flow_id, blocked)
    _unblock(flow_id)
    return Stored(flow_id, ids)


def _store_member(flow_id: int, id: int, member: Member, at: datetime) -> None:
    began, ended = (
        None if each is None else at + timedelta(seconds=each)
        for each in (member.began, member.ended)
    )
    common = {"id": id, "task": member.task, "flow_id": flow_id, "created_at": at, "run_at": at}
    if member.word in Outcome.values:
        own = {"outcome": member.word, "started_at": began, "finished_at": ended or at}
        History.objects.create(**OF_HISTORY, **common, **own)
        return
    errors = [{"class": "ValueError", "message": "no"}] if member.word == State.DEAD else []
    Message.objects.create(
        **common,
        channel="default",
        state=member.word,
        max_attempts=5,
        started_at=began,
        claimed_at=began,
        errors=errors,
    )


def _unblock(flow_id: int) -> None:
    """Leave what waits: for the first of its parents that has not ended."""
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM pgqueue_blocked b WHERE flow_id = %s AND NOT EXISTS "
            "(SELECT FROM pgqueue_message WHERE id = b.message_id AND state = 'held')",
            [flow_id],
        )
        cursor.execute(
            "UPDATE pgqueue_blocked b SET watched_id = coalesce((SELECT min(d.parent_id) FROM "
            "pgqueue_dependency d JOIN pgqueue_message m ON m.id = d.parent_id "
            "WHERE d.flow_id = b.flow_id AND d.child_id = b.message_id), watched_id) "
            "WHERE flow_id = %s",
            [flow_id],
        )
