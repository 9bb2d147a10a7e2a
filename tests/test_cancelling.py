"""A cancel ends no dead letter: a discard does, and that is another permission in the admin."""

from __future__ import annotations

import pytest
from django.core.management import CommandError

from pgqueue import Channel
from pgqueue.engine import cancel, operate
from pgqueue.models import History, Message
from pgqueue.operating import bulk
from pgqueue.tasks.flows import get_flow
from pgqueue.testing import run_all
from tests import stored_flows
from tests.factories import Connection, bury, enqueue
from tests.management.calling import call
from tests.stored_flows import Member


def states() -> dict[int, str]:
    return dict(Message.objects.values_list("pk", "state"))


@pytest.fixture
def dead(queue: Connection) -> int:
    return bury(queue)[0]


class TestADeadLetter:
    def test_is_left_by_each_verb_that_cancels(self, queue: Connection, dead: int) -> None:
        waiting = enqueue(queue)[0]

        ended = [
            cancel.cancel(queue, [dead]).ended,
            operate.cancel(queue, [dead]).done,
            Message.objects.filter(pk=dead).cancel().done,
            Channel("default").cancel(dead).done,
        ]

        assert ended == [set()] * 4
        assert states()[dead] == "dead"
        assert Message.objects.all().cancel().done == {waiting}

    def test_is_left_by_the_command(self, queue: Connection, dead: int) -> None:
        waiting = enqueue(queue)[0]

        named = call("pgqueue_cancel", str(dead))
        looked = call("pgqueue_cancel", "--all", "--dry-run", "--format=json")
        done = call("pgqueue_cancel", "--all")

        assert (named.out, named.status) == (
            "0 cancelled, 1 had already ended, or are dead.\n",
            1,
        )
        assert looked.json["found"] == 1
        assert done.out == "1 cancelled.\n"
        assert states() == {dead: "dead"}
        assert History.objects.get().pk == waiting

    def test_can_not_even_be_named_by_its_state(self, dead: int) -> None:
        with pytest.raises(CommandError, match="dead"):
            call("pgqueue_cancel", "--state=dead")

    def test_is_left_by_an_operation_on_all_that_a_filter_finds(
        self, queue: Connection, dead: int
    ) -> None:
        enqueue(queue, channel="mail")
        Channel("default").pause()
        Channel("mail").pause()

        bulk.start("cancel", bulk.Filter(), newest=bulk.newest())
        run_all()

        assert states() == {dead: "dead"}

    def test_is_left_where_its_flow_is_cancelled(self, queue: Connection) -> None:
        stored = stored_flows.store("f", [Member("a", "dead"), Member("b", "ready")])

        ended = get_flow(stored.id).cancel()

        assert ended.done == {stored.ids[1]}
        assert states() == {stored.ids[0]: "dead"}
