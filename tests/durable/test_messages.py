"""A durable run is a message: its keys, limits, order, counters, ends and forks."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.test import Client as WebClient

from pgqueue import Cancel, Defer, flow
from pgqueue import Channel as Operated
from pgqueue.database.connections import borrow, connect
from pgqueue.durable import DurableContext
from pgqueue.engine import cancel, lease
from pgqueue.exceptions import InvalidTask
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

    @pytest.mark.parametrize("keeps", [True, False])
    def test_takes_calls_of_a_run_that_leaves_it_to_wait(self, keeps: bool) -> None:
        def note(number: int) -> int:
            calls.append(number)
            return number

        task = declared(note, key="lane", ordered=True)

        @durable(key="lane", ordered=True, keeps_lane=keeps, max_attempts=1)
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 1), run.call(task, 2)])

        result = works.enqueue()
        run_all()
        result.refresh()

        assert (result.status, calls) == (("dead", []) if keeps else ("succeeded", [1, 2]))

    def test_takes_no_calls_behind_a_child_of_a_run_that_leaves_it(self) -> None:
        def note(number: Any) -> Any:
            return number

        task = declared(note, key="other", ordered=True)

        @durable(key="lane", ordered=True, keeps_lane=False, max_attempts=1)
        def works(run: DurableContext) -> list[int]:
            return run.gather([run.call(task, 1)])

        with flow("behind") as draft:
            own = draft.enqueue(works)
            draft.enqueue(task, own)
        run_all()

        own.refresh()
        assert own.status == "dead"
        assert "would be behind message" in own.errors[-1].traceback

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

    def test_of_a_run_that_has_done_a_step_is_kept_with_its_arguments(self) -> None:
        @durable(dedupe_key="d")
        def works(run: DurableContext, value: int) -> int:
            run.step(double, value)
            run.sleep(60)
            return value

        first = works.enqueue(1)
        run(first)

        again = works.using(on_conflict="replace").enqueue(2)

        assert (again.came_of, again.id) == ("existing", first.id)
        advance(61)
        run(first)
        assert (returned(first), calls) == (1, [("double", 1)])

    def test_of_a_run_that_waits_for_its_first_step_has_the_arguments_of_the_last_call(
        self,
    ) -> None:
        @durable(dedupe_key="d", max_attempts=3, backoff=[60])
        def works(run: DurableContext, value: int) -> int:
            if value == 1:
                raise Oops
            return value

        first = works.enqueue(1)
        run(first)

        again = works.using(on_conflict="replace").enqueue(2)

        assert (again.came_of, again.id) == ("replaced", first.id)
        run(first)
        assert returned(first) == 2

    def test_of_a_run_that_has_continued_is_kept_with_its_arguments(self) -> None:
        @durable(dedupe_key="d", max_attempts=3, backoff=[60])
        def works(run: DurableContext, round: int) -> None:
            if round == 1:
                run.continue_as(2)
            raise Oops

        first = works.enqueue(1)
        run(first)

        again = works.using(on_conflict="replace").enqueue(7)

        assert (again.came_of, again.id) == ("existing", first.id)
        message = Message.objects.get()
        assert (message.payload["args"], message.metadata["continued"]) == ([2], 1)


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

    @pytest.mark.parametrize("end", ["failed", "deferred", "lost", "released", "dead"])
    def test_does_not_end_a_run_that_has_done_a_step(self, end: str) -> None:
        @durable(ttl=60, max_attempts=1 if end == "dead" else 2, backoff=[30])
        def works(run: DurableContext) -> str:
            run.step(double, 1)
            if calls.count("begun"):
                return "late"
            calls.append("begun")
            if end == "deferred":
                raise Defer(30)
            if end == "lost":
                Operated("default").pause()
                with closing(connect("default", name="test")) as other:
                    other.execute("UPDATE pgqueue_message SET lease_until = now()")
                    assert lease.rescue(other, max_lost=9) != []
            if end == "released":
                Operated("default").pause()
                assert len(Message.objects.filter(state="running").release().done) == 1
            raise Oops

        result = works.enqueue()
        run(result)
        advance(61)
        if end == "dead":
            Operated("default").replay()
        Operated("default").resume()

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

    def test_finds_an_encrypted_run_with_its_steps_and_links(self, settings: Any) -> None:
        from pgqueue.tasks import declaration

        settings.PGQUEUE = {**settings.PGQUEUE, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
        links: list[str] = []

        def body(run: DurableContext) -> Any:
            total = run.step(double, 2)
            if not links:
                links.append(run.signal_url("open", 3))
            return total + run.wait_for("go") + run.wait_for("open")

        before = durable(encrypted=True)(body)
        result = before.enqueue()
        run(result)
        result.signal("go", 1)
        del declaration.tasks[before.name]

        @durable(encrypted=True, aliases=[before.name])
        def after(run: DurableContext) -> Any:
            return body(run)

        assert WebClient().post(links[0]).status_code == 200
        run_all()

        assert after.get_result(result.id).return_value == 8
        assert calls == [("double", 2)]

    def test_of_another_task_is_refused(self) -> None:
        def other() -> None: ...

        task = declared(other)

        def mine() -> None: ...

        with pytest.raises(InvalidTask, match="is the name of another task"):
            declared(mine, aliases=[task.name])


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
