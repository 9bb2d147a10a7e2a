"""Messages of many tasks that go out together: in how many statements, and what they keep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgqueue import DuplicateMessage, Flow, batch, flow, signals
from pgqueue.models import Message
from pgqueue.tasks.options import Options
from tests import flow_jobs as jobs

pytestmark = pytest.mark.django_db

MANY = 200
KEYS = [str(number) for number in range(MANY)]


def plain(f: Flow) -> None:
    for key in KEYS:
        f.enqueue(jobs.number.using(key=key), 1)


def with_parents(f: Flow) -> None:
    for key in KEYS:
        f.enqueue(jobs.number.using(key=key), f.enqueue(jobs.number.using(key=key), 1))


def ordered(f: Flow) -> None:
    for key in KEYS:
        f.enqueue(jobs.number.using(key=key, ordered=True), 1)


def deduplicated(f: Flow, keys: Sequence[str] = KEYS) -> None:
    for key in keys:
        f.enqueue(jobs.number.using(key=key, dedupe_key=f"once {key}"), 1)


class TestMembersThatDifferInTheirKeys:
    @pytest.mark.parametrize("fill", [plain, with_parents, ordered, deduplicated])
    def test_are_stored_in_few_statements(self, fill: Callable[[Flow], None]) -> None:
        with CaptureQueriesContext(connection) as queries, flow("many") as f:
            fill(f)

        assert len(queries) <= 20
        assert set(Message.objects.values_list("key", flat=True)) == set(KEYS)

    def test_have_their_own_dedupe_keys(self) -> None:
        with flow("many") as f:
            deduplicated(f, "ab")

        for message in Message.objects.all():
            assert message.dedupe_key == f"once {message.key}"

    def test_are_stored_in_few_statements_by_a_batch_too(self) -> None:
        with CaptureQueriesContext(connection) as queries, batch() as work:
            members = [work.enqueue(jobs.number.using(key=key), 1) for key in KEYS]

        assert len(queries) <= 15
        keys = dict(Message.objects.values_list("id", "key"))
        assert [keys[int(member.id)] for member in members] == KEYS

    def test_are_announced_by_their_own_tasks(self) -> None:
        senders: list[Any] = []

        def hear(sender: Any, **_: object) -> None:
            senders.append(sender)

        signals.task_enqueued.connect(hear)
        try:
            with flow("announced") as f:
                members = [f.enqueue(jobs.number.using(key=key), 1) for key in "ab"]
        finally:
            signals.task_enqueued.disconnect(hear)

        assert senders == [member.task for member in members]


OTHERS: dict[str, Any] = {
    "channel": "mail",
    "queue_name": "mail",
    "priority": 1,
    "weight": 2,
    "run_after": 60,
    "expires_at": datetime(2100, 1, 1, tzinfo=UTC),
    "ttl": 60,
    "ordered": True,
    "dedupe_for": 60,
    "on_conflict": "raise",
    "hold_for": 60,
    "max_attempts": 1,
    "backoff": [60],
    "timeout": 60,
    "hard_timeout": 60,
    "atomic": True,
    "metadata": {"from": "here"},
    "tags": ["import"],
    "enqueue_on_commit": True,
    "database": "second",
    "longest_wait": 60,
}
"""For each option of `using()` a value that is not the default."""


class TestAnotherOption:
    def test_is_tried_here_unless_it_is_the_messages_own(self) -> None:
        # A connection is given by no test here; flows and batches refuse a task that has one.
        assert {*OTHERS, "key", "dedupe_key", "connection"} == {*Options.__annotations__}

    @pytest.mark.parametrize("option", OTHERS)
    def test_is_not_stored_with_these(self, option: str) -> None:
        plain = jobs.number
        if option == "longest_wait":
            plain = plain.using(on_conflict="replace")
        assert plain.using(**{option: OTHERS[option]}).shared != plain.shared

    def test_is_that_of_its_own_messages(self) -> None:
        once = jobs.number.using(dedupe_key="once")
        once.enqueue(1)

        with flow("lenient") as f:
            again = f.enqueue(once, 2)
        with pytest.raises(DuplicateMessage), flow("strict") as f:
            f.enqueue(once, 2)
            f.enqueue(once.using(on_conflict="raise"), 2)

        assert again.came_of == "existing"
