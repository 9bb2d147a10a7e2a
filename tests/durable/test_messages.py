"""A durable run is a message: its keys, limits, order, counters, ends and forks."""

from __future__ import annotations

from typing import Any

import pytest
from asgiref.sync import sync_to_async
from cryptography.fernet import Fernet
from django.contrib.auth.models import Group
from django.db import connection
from django.test import TestCase

from pgqueue import Cancel
from pgqueue.database.connections import borrow
from pgqueue.durable import DurableContext
from pgqueue.engine import cancel, lease
from pgqueue.exceptions import InvalidStep, InvalidTask
from pgqueue.models import Channel, Dedupe, History, Lane, Message, Step, StoredSignal
from pgqueue.testing import advance, run_all
from tests.durable.running import (
    Oops,
    add,
    attempts,
    calls,
    declared,
    double,
    durable,
    kept,
    names,
    returned,
    run,
)
from tests.factories import limit

pytestmark = pytest.mark.django_db(transaction=True)


def stored_text() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s::text FROM pgqueue_step s UNION ALL SELECT g::text FROM pgqueue_signal g "
            "UNION ALL SELECT h.steps::text FROM pgqueue_history h"
        )
        return str(cursor.fetchall())


class TestALimit:
    def test_does_not_count_a_run_that_waits(self) -> None:
        limit("narrow", scope="channel", max_running=1)

        @durable(channel="narrow")
        def works(run: DurableContext, number: int) -> None:
            calls.append(number)
            run.wait_for("go") if number < 3 else run.sleep(3600)

        for number in (1, 2, 3):
            works.enqueue(number)
        run_all()

        assert sorted(calls) == [1, 2, 3]
        assert sorted(Message.objects.values_list("state", flat=True)) == [
            *("held", "held", "scheduled")
        ]

    def test_holds_for_a_run_that_goes_on(self) -> None:
        limit("narrow", scope="channel", max_running=1)

        @durable(channel="narrow")
        def works(run: DurableContext) -> int:
            run.wait_for("go")
            return Message.objects.filter(state="running").count()

        results = [works.enqueue() for _ in range(3)]
        run_all()
        for each in results:
            each.signal("go")

        assert [returned(each) for each in results] == [1, 1, 1]

    def test_of_a_lane_wakes_its_runs(self) -> None:
        limit("lanes", max_running=1)

        @durable(channel="lanes", key="a")
        def works(run: DurableContext) -> str:
            run.sleep(60)
            return "over"

        results = [works.enqueue() for _ in range(3)]
        run_all()
        advance(61)

        assert [returned(each) for each in results] == ["over"] * 3
        assert not Lane.objects.filter(state="saturated").exists()


class TestAnOrderedLane:
    @pytest.mark.parametrize("keeps", [True, False])
    @pytest.mark.parametrize("wait", ["signal", "sleep"])
    def test_is_blocked_by_a_run_that_waits_if_it_says_so(self, keeps: bool, wait: str) -> None:
        @durable(key="lane", ordered=True, keeps_lane=keeps)
        def works(run: DurableContext, number: int) -> None:
            calls.append(number)
            if number == 1:
                run.wait_for("go") if wait == "signal" else run.sleep(60)
                calls.append("on")

        first = works.enqueue(1)
        works.enqueue(2)
        run_all()
        assert calls == ([1] if keeps else [1, 2])
        first.signal("go")
        advance(61)
        run_all()

        assert calls == ([1, 1, "on", 2] if keeps else [1, 2, 1, "on"])

    def test_is_blocked_by_a_step_that_waits_for_its_next_try(self) -> None:
        def charge() -> None:
            calls.append("charge")
            if len(calls) == 1:
                raise Oops

        @durable(key="lane", ordered=True)
        def works(run: DurableContext) -> None:
            run.step(charge, backoff=[60])

        works.enqueue()
        works.enqueue()
        run_all()
        assert calls == ["charge"]
        advance(61)
        run_all()

        assert calls == ["charge"] * 3


class TestAPriority:
    def test_holds_for_a_run_that_goes_on(self) -> None:
        @durable
        def works(run: DurableContext, number: int) -> None:
            run.wait_for("go")
            calls.append(number)

        low = works.using(priority=-10).enqueue(1)
        high = works.using(priority=10).enqueue(2)
        run_all()
        low.signal("go")
        high.signal("go")
        run_all()

        assert calls == [2, 1]


class TestADedupeKey:
    def test_holds_while_the_run_waits(self) -> None:
        @durable(dedupe_key="one")
        def works(run: DurableContext) -> Any:
            return run.wait_for("go")

        result = works.enqueue()
        run(result)

        assert works.enqueue().id == result.id
        result.signal("go")
        returned(result)
        assert works.enqueue().id != result.id
        assert not Dedupe.objects.exists()


class TestAnExpiry:
    def test_ends_a_run_that_has_not_begun(self) -> None:
        @durable(ttl=60)
        def works(run: DurableContext) -> None:
            pass

        result = works.enqueue()
        advance(61)

        assert run(result) == "expired"

    def test_does_not_end_a_run_that_waits(self) -> None:
        @durable(ttl=60)
        def works(run: DurableContext) -> str:
            run.sleep(3600)
            return "late"

        result = works.enqueue()
        run(result)
        advance(3601)

        assert returned(result) == "late"


class TestAPausedChannel:
    def test_wakes_nobody(self) -> None:
        @durable(channel="paused")
        def works(run: DurableContext) -> Any:
            return run.wait_for("go")

        result = works.enqueue()
        run(result)
        Channel.objects.update_or_create(name="paused", defaults={"paused": True})
        result.signal("go", 1)
        assert run(result) == "ready"
        Channel.objects.update(paused=False)

        assert returned(result) == 1


class TestCancelling:
    @pytest.mark.parametrize("wait", ["signal", "sleep", "event"])
    def test_ends_a_run_that_waits(self, wait: str) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            if wait == "signal":
                run.wait_for("go")
            elif wait == "event":
                run.wait_for_event("a")
            else:
                run.sleep(3600)

        result = works.enqueue()
        run(result)
        result.signal("other")

        assert result.cancel()
        assert run(result) == "cancelled"
        assert kept(result)["steps"][0]["name"] == "add"
        assert len(kept(result)["signals"]) == 1
        assert not Step.objects.exists()
        assert not StoredSignal.objects.exists()

    def test_ends_a_run_that_is_under_way_at_its_next_step(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            with borrow("default") as own:
                cancel.cancel(own, [run.claim.id])
            run.run.cancel()  # as the heartbeat does
            run.step(double, 1)

        result = works.enqueue()

        assert run(result) == "cancelled"
        assert calls == [("add", 1, 1)]

    def test_that_is_asked_for_meanwhile_ends_a_run_that_begins_to_wait(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            with borrow("default") as own:
                cancel.cancel(own, [run.claim.id])
            run.sleep(3600)

        result = works.enqueue()

        assert run(result) == "cancelled"
        assert not Step.objects.exists()

    def test_by_the_run_itself_says_why(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            raise run.cancel("nobody answered")

        result = works.enqueue()

        assert run(result) == "cancelled"
        assert "nobody answered" in str(History.objects.get().errors)
        assert kept(result)["steps"][0]["name"] == "add"
        assert issubclass(Cancel, BaseException)


class TestCounters:
    """max_attempts and max_lost count since the last finished step."""

    def test_of_failures_begin_anew_behind_a_finished_step(self) -> None:
        failed = set()

        @durable(max_attempts=2, backoff=[0])
        def works(run: DurableContext) -> str:
            for number in range(5):
                run.step(double, number)
                if number not in failed:
                    failed.add(number)
                    raise Oops
            return "over"

        result = works.enqueue()

        assert returned(result) == "over"
        assert len(result.errors) == 5
        assert History.objects.get().failures == 1

    def test_of_failures_without_a_step_end_at_the_last_attempt(self) -> None:
        @durable(max_attempts=3, backoff=[0])
        def works(run: DurableContext) -> None:
            run.step(double, 1)
            raise Oops

        result = works.enqueue()

        assert run(result) == "dead"
        assert len(result.errors) == 3

    def test_of_failures_go_on_over_waits(self) -> None:
        @durable(max_attempts=2, backoff=[0])
        def works(run: DurableContext) -> None:
            run.sleep(0)
            raise Oops

        assert run(works.enqueue()) == "dead"
        assert Message.objects.get().failures == 2

    @pytest.mark.parametrize("has_step", [True, False])
    def test_of_losses_begin_anew_behind_a_finished_step(self, has_step: bool) -> None:
        @durable
        def works(run: DurableContext) -> None:
            if has_step:
                run.step(double, run.attempt, name=f"step {run.attempt}")
            if run.attempt > 1:
                calls.append(run.claim.lost)
            if run.attempt < 5:
                Message.objects.filter(id=run.claim.id).update(lease_until="2000-01-01T00:00Z")
                with borrow("default") as own:
                    lease.rescue(own, max_lost=3)

        result = works.enqueue()
        for _ in range(6):
            run_all()
            Message.objects.filter(state="scheduled").run_now()
        result.refresh()

        assert result.status == ("succeeded" if has_step else "dead")
        lost = [each for each in calls if isinstance(each, int)]
        assert lost == ([1] * 4 if has_step else [1, 2])


class TestARerun:
    @pytest.mark.parametrize("is_ended", [True, False])
    def test_begins_without_steps(self, is_ended: bool) -> None:
        @durable
        def works(run: DurableContext, start: int) -> int:
            return run.step(double, start)

        result = works.enqueue(2)
        if is_ended:
            returned(result)
        again = result.rerun()

        assert returned(again) == 4
        assert calls == [("double", 2)] * 2
        assert History.objects.get(id=int(again.id)).metadata == {"rerun_of": int(result.id)}

    def test_is_there_for_all_tasks(self) -> None:
        def plain(value: int) -> int:
            return value + 1

        result = declared(plain).enqueue(2)
        returned(result)

        assert returned(result.rerun()) == 3


class TestAFork:
    def of(self) -> Any:
        @durable
        def works(run: DurableContext, start: int) -> int:
            total = run.step(double, run.step(add, start, 1))
            return total + (run.wait_for("go", int) or 0) + start

        return works

    @pytest.mark.parametrize("is_ended", [True, False])
    def test_begins_with_the_steps_up_to_one(self, is_ended: bool) -> None:
        result = self.of().enqueue(2)
        run(result)
        if is_ended:
            result.signal("go", 1)
            returned(result)
        forked = result.fork(after="add", args=[100])
        run(forked)
        forked.signal("go", 5)

        assert returned(forked) == 6 + 5 + 100
        assert calls == [("add", 2, 1), ("double", 3), ("double", 3)]
        metadata = History.objects.get(id=int(forked.id)).metadata
        assert metadata == {"forked_from": int(result.id), "forked_after": "add"}

    def test_of_all_steps_begins_with_all_that_are_done(self) -> None:
        result = self.of().enqueue(2)
        result.signal("go", 1)
        returned(result)

        assert returned(result.fork()) == returned(result) == 9
        assert len(calls) == 2

    def test_is_a_message_of_its_own(self) -> None:
        keys = []

        def charge(run: DurableContext) -> None:
            keys.append(run.idempotency_key)

        @durable(dedupe_key="one")
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            run.step(charge, run)
            run.wait_for("go")

        result = works.enqueue()
        run(result)
        forked = result.fork(after="add")

        assert forked.id != result.id
        assert run(forked) == run(result) == "held"
        assert len(set(keys)) == 2
        forked.signal("go")
        assert (run(forked), run(result)) == ("succeeded", "held")

    def test_keeps_the_failures_that_were_handled(self) -> None:
        def charge() -> None:
            calls.append("charge")
            raise Oops

        @durable
        def works(run: DurableContext) -> str:
            try:
                run.step(charge, retries=0)
            except Exception as error:
                name = type(error).__name__
            return f"{name} {run.step(double, 2)} {run.random()}"

        result = works.enqueue()
        first = returned(result)

        assert returned(result.fork(after="double")).startswith("StepFailed 4 ")
        assert returned(result.fork()) == first
        assert calls == ["charge", ("double", 2)]

    def test_of_a_fork_says_what_it_is_of(self) -> None:
        result = self.of().enqueue(2)
        run(result)
        again = result.fork(after="double").fork()

        assert set(Message.objects.get(id=int(again.id)).metadata) == {"forked_from"}
        assert set(Message.objects.get(id=int(again.rerun().id)).metadata) == {"rerun_of"}

    def test_after_a_step_that_is_not_done_names_those_that_are(self) -> None:
        result = self.of().enqueue(2)
        run(result)

        for name in ("ad", "wait:go"):
            with pytest.raises(InvalidStep, match="has done no step"):
                result.fork(after=name)
        with pytest.raises(InvalidStep, match="add"):
            result.fork(after="ad")
        assert Message.objects.count() == 1

    def test_of_a_task_that_is_not_durable_is_refused(self) -> None:
        result = declared(lambda: None).enqueue()

        with pytest.raises(InvalidStep, match="is not durable"):
            result.fork()


class TestEncryption:
    def test_holds_for_all_that_is_stored(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}

        def square(value: int) -> int:
            return value * value

        task = declared(square)

        @durable(encrypted=True)
        def works(run: DurableContext, start: int) -> int:
            total = run.step(add, start, 41_000_000)
            run.uuid()
            with run.atomic("block") as block:
                block.result = "hush 41000000"
            number = run.wait_for("go", int)
            return total + (number or 0) + sum(run.gather([run.call(task, 7001)]))

        result = works.enqueue(1)
        run(result)
        result.signal("go", 81_818_181)
        for word in ("41000000", "41000001", "81818181", "hush"):
            assert word not in stored_text()

        assert returned(result) == 41_000_001 + 81_818_181 + 7001**2
        for word in ("41000000", "41000001", "81818181", "hush", str(7001**2)):
            assert word not in str(kept(result))
        assert str(kept(result)).count("encrypted") == 6

    def test_holds_for_a_fork(self, settings: Any) -> None:
        settings.PGQUEUE = {**settings.PGQUEUE, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}

        @durable(encrypted=True)
        def works(run: DurableContext) -> int:
            return run.step(add, 41_000_000, 1)

        result = works.enqueue()
        returned(result)

        assert returned(result.fork()) == 41_000_001
        assert len(calls) == 1
        assert "41000001" not in stored_text()


class TestAnAsyncTask:
    def of(self) -> Any:
        def square(value: int) -> int:
            return value * value

        task = declared(square)

        async def fetch(value: int) -> int:
            calls.append("fetch")
            return value

        def write(name: str) -> int:
            Group.objects.create(name=name)
            return 4

        @durable
        async def works(run: DurableContext) -> str:
            now = run.now()
            total = (
                await run.astep(fetch, 1)
                + await run.astep(add, 1, 1)  # type: ignore[arg-type]
                + await run.astep(write, "a", atomic=True)  # type: ignore[arg-type]
            )
            await run.asleep(0)
            answer = await run.await_for("go", int, timeout=60)
            [squared] = await run.agather([run.call(task, 3)])
            other = await run.aenqueue(task, 4)
            any = await run.await_for_any(["a", "b"], timeout=60)
            event = await run.await_for_event("nothing", timeout=0)
            calls.append((now, other.id))
            return f"{total} {answer} {squared} {any} {event} {run.random() < 1}"

        return works

    def test_has_all_the_verbs(self) -> None:
        result = self.of().enqueue()
        run(result)
        result.signal("go", 7)
        result.signal("b")

        assert returned(result) == "7 7 9 Signal(name='b', payload=None) None True"
        assert calls[:2] == ["fetch", ("add", 1, 1)]
        assert len(set(calls[2:])) == len(calls[2:]) == 1
        assert list(Group.objects.values_list("name", flat=True)) == ["a"]

    def test_has_retries(self) -> None:
        async def fetch() -> str:
            calls.append("fetch")
            if len(calls) < 3:
                raise Oops
            return "fetched"

        @durable
        async def works(run: DurableContext) -> str:
            return await run.astep(fetch, retries=2, backoff=[0])

        assert returned(works.enqueue()) == "fetched"
        assert len(calls) == 3

    def test_may_call_a_coroutine_function_in_an_atomic_step(self) -> None:
        async def write(name: str) -> str:
            await sync_to_async(Group.objects.create)(name=name)
            return name

        @durable
        async def works(run: DurableContext) -> str:
            return await run.astep(write, "a", atomic=True)

        assert returned(works.enqueue()) == "a"
        assert Group.objects.count() == 1


@pytest.mark.usefixtures("own_tasks")
class TestInATestCase(TestCase):
    """The same within a transaction that is never committed."""

    def test_a_durable_task_runs(self) -> None:
        calls.clear()

        @durable
        def works(run: DurableContext) -> list[Any]:
            run.step(add, 1, 1)
            with run.atomic("block") as block:
                Group.objects.create(name="a")
                block.result = run.attempt
            run.sleep(60)
            return [block.result, run.wait_for("go")]

        result = works.enqueue()
        run_all()
        advance(61)
        run_all()
        result.signal("go", 7)

        assert returned(result) == [1, 7]
        assert calls == [("add", 1, 1)]
        assert Group.objects.count() == 1

    def test_an_atomic_step_that_fails_is_rolled_back(self) -> None:
        def write() -> None:
            Group.objects.create(name="a")
            raise Oops

        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(write, atomic=True, retries=1, backoff=[0])

        result = works.enqueue()

        assert run(result) == "dead"
        assert not Group.objects.exists()

    def test_an_async_durable_task_runs(self) -> None:
        calls.clear()

        @durable
        async def works(run: DurableContext) -> Any:
            total = await run.astep(add, 1, 1)  # type: ignore[arg-type]
            run.now()
            await run.asleep(0)
            return total + await run.await_for("go", int)

        result = works.enqueue()
        run_all()
        result.signal("go", 7)

        assert returned(result) == 9
        assert calls == [("add", 1, 1)]

    def test_gathers_run(self) -> None:
        def square(value: int) -> int:
            return value * value

        task = declared(square)

        @durable
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, each) for each in (1, 2)])

        assert returned(works.enqueue()) == [1, 4]


class TestAnAlias:
    def test_finds_a_task_by_its_old_name(self) -> None:
        def renamed(value: int) -> int:
            return value

        task = declared(renamed, aliases=["shop.gone.old"])
        with connection.cursor() as cursor:
            cursor.execute("SELECT pgqueue_enqueue('shop.gone.old', '{\"args\": [7]}')")
            [id] = cursor.fetchone()
        run_all()

        assert task.get_result(id).return_value == 7

    def test_finds_a_run_that_waits(self) -> None:
        from pgqueue.tasks import declaration

        @durable
        def before(run: DurableContext) -> Any:
            return run.step(double, 2) + run.wait_for("go")

        result = before.enqueue()
        run(result)
        del declaration.tasks[before.name]

        @durable(aliases=[before.name])
        def after(run: DurableContext) -> Any:
            return run.step(double, 2) + run.wait_for("go")

        after.get_result(result.id).signal("go", 1)
        run_all()

        assert after.get_result(result.id).return_value == 5
        assert calls == [("double", 2)]

    def test_of_another_task_is_refused(self) -> None:
        def other() -> None: ...

        task = declared(other)

        def mine() -> None: ...

        with pytest.raises(InvalidTask, match="is the name of another task"):
            declared(mine, aliases=[task.name])


class TestWhatIsKept:
    def test_moves_into_history_with_the_end(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            run.random()

        result = works.enqueue()
        result.signal("unread")
        returned(result)

        assert [each["name"] for each in kept(result)["steps"]] == ["add", "random"]
        assert [each["name"] for each in kept(result)["signals"]] == ["unread"]
        assert not Step.objects.exists()
        assert not StoredSignal.objects.exists()

    def test_shows_each_step_once(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            run.sleep(0)
            run.random()

        result = works.enqueue()
        returned(result)

        steps = kept(result)["steps"]
        assert [(each["name"], each["state"]) for each in steps] == [
            ("sleep", "done"),
            ("random", "done"),
        ]

    def test_is_nothing_for_a_run_without_steps(self) -> None:
        @durable
        def works(run: DurableContext) -> None:
            pass

        result = works.enqueue()
        returned(result)

        assert kept(result) is None

    def test_stays_with_a_dead_message(self) -> None:
        @durable(max_attempts=1)
        def works(run: DurableContext) -> None:
            run.step(add, 1, 1)
            raise Oops

        result = works.enqueue()
        assert run(result) == "dead"
        assert names(result) == ["add"]
        Message.objects.all().discard()

        assert [each["name"] for each in kept(result)["steps"]] == ["add"]
        assert not Step.objects.exists()

    def test_goes_on_by_a_replay(self) -> None:
        is_broken = True

        @durable(max_attempts=1)
        def works(run: DurableContext) -> int:
            value = run.step(add, 1, 1)
            if is_broken:
                raise Oops
            return value

        result = works.enqueue()
        run(result)
        is_broken = False
        Message.objects.all().replay()

        assert returned(result) == 2
        assert calls == [("add", 1, 1)]


def test_a_wait_costs_an_attempt_and_no_failure() -> None:
    @durable(max_attempts=1)
    def works(run: DurableContext) -> int:
        for _ in range(5):
            run.sleep(0)
        return run.attempt

    result = works.enqueue()

    assert returned(result) == 6
    assert attempts(result) == 6
    assert result.errors == []
