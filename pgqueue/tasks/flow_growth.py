"""Messages that a run adds to the flow of its own message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from pgqueue.database.migration_check import needing_tables
from pgqueue.engine.values import Cursors
from pgqueue.tasks.flow_building import ANYWHERE, After
from pgqueue.tasks.flow_members import (
    Member,
    waits_for_itself,
)
from pgqueue.tasks.flow_storing import StoredDraft


class Growth(StoredDraft):
    """The messages that a task adds to the flow of its own message: `context.flow`.

    They are stored together with the success of the run, or not at all.

    Args:
        flow_id: the id of the flow.
        message_id: the id of the message that runs.

    Attributes:
        id: the flow's id, as text.
    """

    def __init__(self, database: str, *, flow_id: int, message_id: int) -> None:
        super().__init__(database)
        # The run may have begun a savepoint before it uses its flow.
        self._outside = ANYWHERE
        self.id = str(flow_id)
        self._flow_id = flow_id
        self._message_id = message_id

    def __str__(self) -> str:
        return f"the part of the flow that message {self._message_id} adds"

    def enqueue(self, task: Any, *args: Any, awaited: bool = False, **kwargs: Any) -> Member[Any]:
        """Add a message to the flow, as `Draft.enqueue` does.

        Args:
            awaited: the children of this run's own message wait for the new one, too. So it must
                be stored: the run fails if it is a duplicate, or is dropped.
        """
        member = super().enqueue(task, *args, **kwargs)
        if awaited:
            self.have_awaited(member)
        return member

    def have_awaited(self, member: Member[Any]) -> None:
        """Have the children of this run's own message wait for this new message, too."""
        self._awaited.add(member.number)

    def enqueue_many(
        self,
        task: Any,
        calls: Iterable[Sequence[Any] | Mapping[str, Any]],
        *,
        awaited: bool = False,
        after: After = (),
        on_failure: str = "wait",
    ) -> list[Member[Any]]:
        """Add messages to the flow, as `Draft.enqueue_many` does."""
        members = super().enqueue_many(task, calls, after=after, on_failure=on_failure)
        if awaited:
            self._awaited.update(each.number for each in members)
        return members

    def wait(self, timeout: Any = None) -> NoReturn:
        """Refuse to wait: the flow goes on for as long as this run does.

        Raises:
            InvalidFlow: always.
        """
        raise waits_for_itself(self._message_id)

    def grow(self, connection: Cursors) -> None:
        """Store the new messages, in the transaction in which the run is settled.

        Raises:
            InvalidArguments, InvalidFlow, ChannelFull, DuplicateMessage: the run has failed.
        """
        self.forget_rolled_back()
        if self._members:
            with needing_tables(self.database):
                self.extend(connection, self._flow_id, self._message_id)
