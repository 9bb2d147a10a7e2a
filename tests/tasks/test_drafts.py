"""Members of a flow: what they may be, what they may be given, and when they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from pgqueue import (
    Channel,
    ChannelFull,
    DuplicateMessage,
    Flow,
    FlowDoesNotExist,
    InvalidArguments,
    InvalidFlow,
    Progress,
    TaskFailed,
    TaskResultDoesNotExist,
    WaitTimeout,
    aget_flow,
    batch,
    chain,
    flow,
    get_flow,
    receive,
)
from pgqueue.exceptions import WaitInTransaction
from pgqueue.models import Blocked, Dependency, History, Message
from pgqueue.models import Flow as FlowRow
from pgqueue.redaction import MASK
from pgqueue.states import Outcome, State
from pgqueue.testing import advance, run_all
from tests import flow_jobs as jobs
from tests.cards import decline, issue

pytestmark = pytest.mark.django_db


def value_of(member: Any) -> Any:
    member.refresh()
    return member.return_value


class TestArguments:
    @pytest.mark.parametrize(
        ("task", "wrap", "returned"),
        [
            (jobs.pair, lambda one, two: (one, two), [1, 2]),
            (jobs.distinct, lambda one, two: {one, two}, [1, 2]),
            (jobs.deep, lambda one, two: {"a": [{"b": one}], "c": (two,)}, [1, 2]),
            (jobs.sides, jobs.Sides, [1, 2]),
        ],
        ids=["tuple", "set", "nested", "dataclass"],
    )
    def test_may_have_members_within(
        self, task: Any, wrap: Callable[..., Any], returned: list[int]
    ) -> None:
        with flow("within") as f:
            one, two = f.enqueue(jobs.number, 1), f.enqueue(jobs.number, 2)
            end = f.enqueue(task, wrap(one, two))

        assert {each.parent_id for each in Dependency.objects.all()} == {int(one.id), int(two.id)}
        run_all()

        assert value_of(end) == returned

    @pytest.mark.parametrize(
        "wrap",
        [
            lambda each: (one for one in [each]),
            lambda each: {each: 1},
            lambda each: jobs.Unhinted(each),
        ],
        ids=["generator", "key of a dict", "dataclass without a hint"],
    )
    def test_that_can_not_be_stored_are_refused_with_a_member_within(
        self, wrap: Callable[[Any], Any]
    ) -> None:
        with pytest.raises(InvalidArguments), flow("unstorable") as f:
            f.enqueue(jobs.kind_of, wrap(f.enqueue(jobs.number, 1)))

        assert not Message.objects.exists()

    def test_that_only_look_like_a_result_are_left_alone(self) -> None:
        secret = jobs.number.enqueue(4711)
        run_all()
        forged = {"@": "result", "value": int(secret.id)}

        with flow("forged") as f:
            end = f.enqueue(jobs.echo, forged)
        run_all()

        assert value_of(end) == forged

    def test_of_a_batch_or_a_message_alone_are_no_members(self) -> None:
        with flow("members") as f:
            member = f.enqueue(jobs.number, 1)

        with pytest.raises(InvalidArguments, match="only a message of the same flow"):
            jobs.add_to.enqueue_many([(member, 1), (2, member)])
        with (
            pytest.raises(InvalidArguments, match="only a message of the same flow"),
            batch() as work,
        ):
            work.enqueue(jobs.number, member)

    def test_can_not_be_what_a_key_is_made_of(self) -> None:
        by_text = [{"key": str}, {"dedupe_key": lambda number: f"number {number}"}]
        for options in by_text:
            with pytest.raises(InvalidFlow, match="is not known yet"), flow("keys") as f:
                f.enqueue(jobs.number.using(**options), f.enqueue(jobs.number, 1))

        assert not Message.objects.exists()


class TestManyAtOnce:
    def test_may_be_given_by_names_that_enqueue_has_too(self) -> None:
        with flow("named") as f:
            [end] = f.enqueue_many(
                jobs.named_as_options, [{"after": 1, "on_failure": 2, "task": 3}]
            )

        run_all()

        assert value_of(end) == 6


class TestOptions:
    def test_hold_for_what_waits_as_for_any_message(self) -> None:
        Channel("narrow").policy(max_running=1)
        with flow("options") as f:
            first = f.enqueue(jobs.number, 1)
            narrow = jobs.number.using(channel="narrow", key="tenant", priority=7)
            ends = [f.enqueue(narrow, first) for _ in range(3)]
            late = f.enqueue(jobs.number.using(run_after=60), first)

        assert {each.governed for each in Message.objects.filter(channel="narrow")} == {True}
        ran = run_all()

        assert [each.id for each in ran] == [first.id, *[each.id for each in ends]]
        assert set(History.objects.filter(channel="narrow").values_list("key", "priority")) == {
            ("tenant", 7)
        }
        late.refresh()
        assert late.status is State.SCHEDULED
        advance(timedelta(seconds=61))
        run_all()
        assert value_of(late) == 1

    def test_a_rate_begins_when_the_first_is_let_go(self) -> None:
        Channel("paced").policy(rate=1, per=3600)
        with flow("rate") as f:
            first = f.enqueue(jobs.number, 1)
            ends = [f.enqueue(jobs.number.using(channel="paced"), first) for _ in range(2)]

        run_all()

        for each in ends:
            each.refresh()
        assert [each.status for each in ends] == [Outcome.SUCCEEDED, State.READY]

    def test_order_is_that_of_the_flow_whoever_waits(self) -> None:
        ordered = jobs.number.using(ordered=True, key="lane")
        with flow("order") as f:
            first = f.enqueue(jobs.number, 1)
            waits = f.enqueue(ordered, first)
            free = f.enqueue(ordered, 2)

        ran = run_all()

        assert [each.id for each in ran] == [first.id, waits.id, free.id]

    def test_what_expires_while_it_waits_fails_what_waits_for_it(self) -> None:
        with flow("expires") as f:
            first = f.enqueue(jobs.number.using(run_after=3600), 1)
            short = f.enqueue(jobs.number.using(ttl=60), first)
            last = f.enqueue(jobs.failures, short, on_failure="run")

        advance(timedelta(seconds=61))
        run_all()

        short.refresh()
        assert short.status is Outcome.EXPIRED
        assert value_of(last) == ["expired: "]


class TestGrowthInAnOrderedLane:
    def store(self, key: str, *, awaited: bool) -> tuple[Any, Any]:
        with flow("ordered") as f:
            grows = f.enqueue(jobs.grow_in_order, key, awaited)
            between = f.enqueue(jobs.number, grows)
            end = f.enqueue(jobs.number.using(ordered=True, key="lane"), between)
        run_all()
        grows.refresh()
        return grows, end

    def test_is_refused_behind_a_message_that_is_to_wait_for_it(self) -> None:
        grows, _ = self.store("lane", awaited=True)

        assert grows.status is State.DEAD
        assert "neither could ever run" in grows.errors[-1].message

    @pytest.mark.parametrize(("key", "awaited"), [("lane", False), ("another", True)])
    def test_is_stored_where_it_can_run(self, key: str, awaited: bool) -> None:
        _, end = self.store(key, awaited=awaited)

        assert value_of(end) == -1
        assert not Message.objects.exists()

    def test_is_refused_behind_the_handler(self) -> None:
        handler = jobs.note.using(ordered=True, key="lane")
        with flow("handled", on_end=handler) as f:
            grows = f.enqueue(jobs.grow_in_order, "lane", False)
        run_all()

        grows.refresh()
        assert "neither could ever run" in grows.errors[-1].message


class TestGrowthBehindALane:
    """What is added would be behind a message that waits for it by way of another lane."""

    def store(self, grow: Any, key: str, *, is_one_flow: bool = True) -> tuple[Any, Any]:
        with flow("grows") as f:
            grows = f.enqueue(grow, key, *([True] if grow is jobs.grow_in_order else []))
            f.enqueue(jobs.number.using(ordered=True, key="first"), grows)
            if is_one_flow:
                last = self.store_behind(f)
        if not is_one_flow:
            with flow("behind") as other:
                last = self.store_behind(other)
        run_all()
        grows.refresh()
        return grows, last

    def store_behind(self, f: Flow) -> Any:
        behind = f.enqueue(jobs.number.using(ordered=True, key="first"), 1)
        return f.enqueue(jobs.number.using(ordered=True, key="second"), behind)

    @pytest.mark.parametrize("grow", [jobs.grow_in_order, jobs.grow_behind_another])
    @pytest.mark.parametrize("is_one_flow", [True, False])
    def test_is_refused(self, grow: Any, is_one_flow: bool) -> None:
        grows, last = self.store(grow, "second", is_one_flow=is_one_flow)

        assert "neither could ever run" in grows.errors[-1].message
        assert f"behind message {last.id}" in grows.errors[-1].message

    @pytest.mark.parametrize("grow", [jobs.grow_in_order, jobs.grow_behind_another])
    def test_is_stored_in_another_one(self, grow: Any) -> None:
        _, last = self.store(grow, "third")

        assert value_of(last) == 1
        assert not Message.objects.exists()


class TestGrowthThatIsAwaited:
    def grown(self, options: dict[str, str], *, awaited: bool) -> Any:
        with flow("grows") as f:
            grows = f.enqueue(jobs.grow_with, options, awaited)
            f.enqueue(jobs.number, grows)
        run_all()
        grows.refresh()
        return grows

    def test_is_no_duplicate(self) -> None:
        once = {"dedupe_key": "once"}
        jobs.number.using(dedupe_key="once", run_after=3600).enqueue(1)

        refused = self.grown(once, awaited=True)

        assert refused.status is State.DEAD
        assert "no message of the flow can wait for it" in refused.errors[-1].message
        assert self.grown(once, awaited=False).status is Outcome.SUCCEEDED

    def test_is_not_dropped(self) -> None:
        Channel("narrow").policy(max_size=1)
        Channel("narrow").configure(on_full="drop")
        narrow = {"channel": "narrow"}
        jobs.number.using(channel="narrow", run_after=3600).enqueue(1)

        refused = self.grown(narrow, awaited=True)

        assert refused.status is State.DEAD
        assert "dropped" in refused.errors[-1].message
        assert self.grown(narrow, awaited=False).status is Outcome.SUCCEEDED


class TestADuplicate:
    def test_of_one_that_would_wait_is_left_as_it_is(self) -> None:
        once = jobs.number.using(dedupe_key="once", run_after=3600)
        before = once.enqueue(1)

        with flow("twice") as f:
            first = f.enqueue(jobs.number, 2)
            again = f.enqueue(once, first)

        assert (again.id, again.came_of) == (before.id, "existing")
        assert not Blocked.objects.exists()
        run_all()
        assert f.progress.total == 1

    def test_can_not_be_replaced_by_one_that_waits(self) -> None:
        burst = jobs.number.using(dedupe_key="burst", on_conflict="replace", run_after=3600)
        before = burst.enqueue(1)

        with pytest.raises(DuplicateMessage, match="this one can't replace it"), flow("burst") as f:
            f.enqueue(burst, f.enqueue(jobs.number, 2))

        assert jobs.number.get_result(before.id).args == [1]
        assert Message.objects.count() == 1

    def test_may_be_replaced_by_one_that_waits_for_nothing(self) -> None:
        burst = jobs.number.using(dedupe_key="burst", on_conflict="replace", run_after=3600)
        before = burst.enqueue(1)

        with flow("burst") as f:
            alone = f.enqueue(burst, 2)

        assert (alone.id, alone.came_of) == (before.id, "replaced")

    def test_is_not_waited_for_by_the_handler_of_a_flow(self) -> None:
        jobs.ran.clear()
        once = jobs.number.using(dedupe_key="once", run_after=3600)
        once.enqueue(1)

        with flow("handled", on_end=jobs.note) as f:
            f.enqueue(once, 1)
            f.enqueue(jobs.number, 2)
        run_all()

        assert jobs.ran == [f.id]

    @pytest.mark.parametrize("state", ["scheduled", "running"])
    def test_is_not_the_handler_of_a_flow(self, state: str) -> None:
        once = jobs.note.using(dedupe_key="once", run_after=3600)
        before = once.enqueue("other")
        Message.objects.update(state=state)

        refused = pytest.raises(DuplicateMessage, match=f"{before.id} .*can't be its on_end")
        with refused, flow("handled", on_end=once) as f:
            f.enqueue(jobs.number, 2)

        assert Message.objects.count() == 1


class TestAFullChannel:
    @pytest.fixture(autouse=True)
    def _room_for_one(self) -> None:
        Channel("narrow").policy(max_size=1)

    def test_counts_what_waits(self) -> None:
        with pytest.raises(ChannelFull), flow("full") as f:
            first = f.enqueue(jobs.number, 1)
            f.enqueue_many(jobs.number.using(channel="narrow"), [(first,), (first,)])

        assert not Message.objects.exists()

    def test_that_drops_what_is_beyond_leaves_no_wait_of_it(self) -> None:
        Channel("narrow").configure(on_full="drop")
        with flow("drops") as f:
            first = f.enqueue(jobs.number, 1)
            ends = f.enqueue_many(jobs.number.using(channel="narrow"), [(first,), (first,)])

        assert [each.came_of for each in ends] == ["stored", "dropped"]
        assert [each.message_id for each in Blocked.objects.all()] == [int(ends[0].id)]
        with pytest.raises(TaskResultDoesNotExist, match="not stored"):
            ends[1].refresh()

    def test_can_not_drop_the_handler(self) -> None:
        Channel("narrow").configure(on_full="drop")
        narrow = jobs.note.using(channel="narrow")
        narrow.enqueue("other")

        refused = pytest.raises(ChannelFull, match="dropped .*note, the on_end of")
        with refused, flow("handled", on_end=narrow) as f:
            f.enqueue(jobs.number, 2)

        assert Message.objects.count() == 1

    def test_can_not_drop_what_others_wait_for(self) -> None:
        Channel("narrow").configure(on_full="drop")
        with pytest.raises(ChannelFull, match="others of the flow"), flow("drops") as f:
            narrow = jobs.number.using(channel="narrow")
            f.enqueue(jobs.total, f.enqueue_many(narrow, [(1,), (2,)]))

        assert not Message.objects.exists()


class TestAMemberThatIsNotStored:
    @pytest.mark.parametrize(
        "verb", ["refresh", "cancel", "commit", "abandon", "wait", "extend_hold"]
    )
    def test_says_so_by_each_verb(self, verb: str) -> None:
        options = {"for_": 1} if verb == "extend_hold" else {}
        with flow("later") as f:
            member = f.enqueue(jobs.number, 1)
            with pytest.raises(TaskResultDoesNotExist, match="not stored, or not yet"):
                getattr(member, verb)(**options)
            with pytest.raises(TaskFailed):
                _ = member.return_value

    def test_has_no_id_after_a_flow_that_could_not_be_stored(self) -> None:
        with pytest.raises(InvalidArguments), flow("bad") as f:
            first = f.enqueue(jobs.number, 1)
            f.enqueue(jobs.number, object())  # type: ignore[arg-type]

        assert (first.id, f.id) == ("", "")

    def test_nor_does_its_flow_exist_after_a_rollback(self) -> None:
        with pytest.raises(RuntimeError), transaction.atomic():
            with flow("undone") as f:
                member = f.enqueue(jobs.number, 1)
            raise RuntimeError

        for ask in (lambda: f.progress, lambda: f.wait(1), member.refresh):
            with pytest.raises((FlowDoesNotExist, TaskResultDoesNotExist), match="rolled back"):
                ask()


class TestBadInput:
    @pytest.mark.parametrize("name", [None, 7, "a\0b", b"import"])
    def test_for_the_name_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidFlow, match="no name of a flow"):
            flow(name)

    @pytest.mark.parametrize("after", [None, 7, "text", [None], [["nested"]]])
    def test_for_what_is_waited_for_is_refused(self, after: Any) -> None:
        with pytest.raises(InvalidFlow, match="nothing"), flow("bad") as f:
            f.enqueue(jobs.nothing, after=after)

        assert not Message.objects.exists()

    @pytest.mark.parametrize("handler", [print, "notify", jobs.number.call(1)])
    def test_for_the_handler_is_refused(self, handler: Any) -> None:
        with pytest.raises(InvalidFlow, match="no task"), flow("bad", on_end=handler) as f:
            f.enqueue(jobs.number, 1)

        assert not Message.objects.exists()


class TestWithoutAWorker:
    @pytest.mark.django_db(transaction=True)
    def test_who_receives_a_message_gets_the_results_of_those_before_it(self) -> None:
        with flow("received") as f:
            parts = [f.enqueue(jobs.number, 1), f.enqueue(jobs.number, 2)]
            end = f.enqueue(jobs.total.using(channel="pulled"), parts)
        Channel("pulled").pause()
        run_all()
        Channel("pulled").resume()

        with receive("pulled", limit=1) as deliveries:
            for delivery in deliveries:
                args = delivery.args
                delivery.complete()

        assert args == [[1, 2]]
        end.refresh()
        assert end.status is Outcome.SUCCEEDED

    @pytest.mark.django_db(transaction=True)
    def test_an_error_that_is_noted_hides_what_is_redacted_of_a_result(self) -> None:
        with flow("received") as f:
            f.enqueue(decline.using(channel="pulled"), f.enqueue(issue))
        Channel("pulled").pause()
        run_all()
        Channel("pulled").resume()

        with receive("pulled", limit=1) as deliveries:
            for delivery in deliveries:
                delivery.retry(0, error=f"{delivery.args[0]} was declined")

        [error] = Message.objects.get().errors
        assert error["message"] == f"{MASK} was declined"


class TestABlock:
    def test_that_has_ended_takes_no_more(self) -> None:
        with flow("ended") as f:
            f.enqueue(jobs.number, 1)
        with pytest.raises(RuntimeError), flow("failed") as failed:
            raise RuntimeError

        for over in (f, failed, get_flow(f.id)):
            with pytest.raises(InvalidFlow, match="its block has ended"):
                over.enqueue(jobs.number, 2)
        with pytest.raises(InvalidFlow, match="its block has ended"), failed:
            pass

    def test_of_a_run_takes_no_more_after_that_run(self) -> None:
        jobs.ran.clear()
        with flow("kept") as f:
            f.enqueue(jobs.keeps_its_flow)
        run_all()

        with pytest.raises(InvalidFlow, match="its block has ended"):
            jobs.ran[0].enqueue(jobs.number, 2)

    def test_in_a_transaction_can_not_be_waited_for_there(self) -> None:
        with flow("open") as f:
            f.enqueue(jobs.number, 1)

        with pytest.raises(WaitInTransaction, match="run_all"):
            f.wait()

    @pytest.mark.django_db(databases=["default", "second"])
    def test_stores_its_flow_on_the_database_that_it_names(self) -> None:
        there = {"database": "second"}
        with flow("there", **there) as f:
            f.enqueue(jobs.total.using(**there), [f.enqueue(jobs.number.using(**there), 1)])
        with (
            pytest.raises(InvalidFlow, match="not stored on 'second'"),
            flow("mixed", **there) as g,
        ):
            g.enqueue(jobs.number, 1)

        assert FlowRow.objects.using("second").get().name == "there"
        assert not FlowRow.objects.using("default").exists()
        run_all(**there)
        assert get_flow(f.id, **there).progress.done == 2


@pytest.mark.django_db(transaction=True)
class TestInAsyncCode:
    def test_all_is_done_by_awaiting(self) -> None:
        async def use() -> tuple[Flow, Any]:
            async with flow("async") as f:
                f.enqueue(jobs.total, [f.enqueue(jobs.number_async, 7)])
            assert (await f.aprogress()).total == 2
            found = await aget_flow(f.id)
            assert len((await found.acancel()).done) == 2
            assert (await found.await_(1)).has_ended
            assert not (await found.aretry()).done
            return f, await chain(jobs.number.call(1), jobs.add_to.call(1)).aenqueue()

        f, last = async_to_sync(use)()
        run_all()

        assert f.progress.failed == 2
        assert value_of(last) == 2

    def test_no_thread_is_kept_by_who_awaits_the_end(self) -> None:
        async def use() -> tuple[Progress, list[Any]]:
            async with flow("awaited") as f:
                f.enqueue(jobs.total, [f.enqueue(jobs.number, 7)])
            ended = asyncio.create_task(f.await_(20))
            # In the one thread that all sync code shares.
            ran = await sync_to_async(run_all)()
            return await ended, ran

        progress, ran = async_to_sync(use)()

        assert (progress.done, len(ran)) == (2, 2)

    def test_a_flow_that_goes_on_is_given_up_in_time(self) -> None:
        async def use() -> None:
            async with flow("goes on") as f:
                f.enqueue(jobs.number, 1)
            await f.await_(0.01)

        with pytest.raises(WaitTimeout, match=r"within 0\.01 s"):
            async_to_sync(use)()

    def test_an_error_stores_nothing(self) -> None:
        async def use() -> None:
            async with flow("raises") as f:
                f.enqueue(jobs.number, 1)
                raise RuntimeError

        with pytest.raises(RuntimeError):
            async_to_sync(use)()

        assert not Message.objects.exists()

    def test_a_flow_is_stored_in_the_transaction_that_is_open(self) -> None:
        async def use() -> None:
            async with flow("undone") as f:
                f.enqueue(jobs.number, 1)

        with pytest.raises(RuntimeError), transaction.atomic():
            async_to_sync(use)()
            raise RuntimeError

        assert not connections["default"].in_atomic_block
        assert not Message.objects.exists()
