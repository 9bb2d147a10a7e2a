"""What a batch applies: all or nothing, in one order, without a deadlock."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest
from django.db import transaction

from pgqueue import batch
from pgqueue.exceptions import (
    BatchTooLarge,
    ChannelFull,
    DuplicateMessage,
    InvalidArguments,
    InvalidPolicy,
    InvalidTask,
)
from pgqueue.models import Message, Policy
from tests import jobs
from tests.processes import ROOT, environment

pytestmark = pytest.mark.django_db(transaction=True)

PROCESSES = 8
PRODUCER = """
import sys
import django
django.setup()
from tests.tasks.test_batch import produce
produce(int(sys.argv[1]), int(sys.argv[2]))
"""


class TestABatch:
    def test_applies_everything_at_its_end(self) -> None:
        with batch() as work:
            work.policy("mail", max_running=3)
            first = work.enqueue(jobs.add, 1)
            held = work.enqueue(jobs.add.hold(for_=60), 2)
            many = work.enqueue_many(jobs.mail, [("a@b.c",), {"address": "d@e.f"}])
            assert not Message.objects.exists()
            assert first.id == ""

        assert Message.objects.count() == 4
        assert (first.status, held.status) == ("ready", "held")
        assert all(result.id for result in many)
        assert Policy.objects.get().max_running == 3

    def test_refuses_a_task_that_is_stored_on_commit(self) -> None:
        with pytest.raises(InvalidTask, match="stored on commit"), batch() as work:
            work.enqueue(jobs.add, 1)
            work.enqueue(jobs.add.using(enqueue_on_commit=True), 2)

        assert not Message.objects.exists()

    def test_is_nothing_where_it_fails(self) -> None:
        with pytest.raises(ZeroDivisionError), batch() as work:
            work.enqueue(jobs.add, 1)
            raise ZeroDivisionError

        assert not Message.objects.exists()

    @pytest.mark.parametrize(
        ("wrong", "error"),
        [
            (lambda work: work.policy("mail", max_running=0), InvalidPolicy),
            (lambda work: work.enqueue(jobs.add, "a", "b", "c"), InvalidArguments),
            (lambda work: work.enqueue(jobs.add.using(channel="full"), 1), ChannelFull),
            (
                lambda work: work.enqueue(
                    jobs.add.using(dedupe_key="taken", on_conflict="raise"), 1
                ),
                DuplicateMessage,
            ),
        ],
    )
    def test_is_nothing_where_one_thing_cant_be(self, wrong: Any, error: type[Exception]) -> None:
        jobs.add.using(channel="full", dedupe_key="x").enqueue(0)
        jobs.add.using(dedupe_key="taken").enqueue(0)
        Policy.objects.create(channel="full", scope="channel", max_size=1)

        with pytest.raises(error), batch() as work:
            work.policy("other", max_running=3)
            work.enqueue(jobs.add, 1)
            wrong(work)

        assert Message.objects.count() == 2
        assert Policy.objects.count() == 1

    def test_is_part_of_the_transaction_that_is_open(self) -> None:
        with transaction.atomic():
            with batch() as work:
                work.enqueue(jobs.add, 1)
            assert Message.objects.exists()
            transaction.set_rollback(True)

        assert not Message.objects.exists()

    def test_keeps_the_order_of_what_is_ordered(self) -> None:
        ordered = jobs.add.using(key="a", ordered=True)
        with batch() as work:
            results = [
                work.enqueue(ordered.using(dedupe_key=key) if key else ordered, n)
                for n, key in enumerate(["z", "", "b", "a", ""])
            ]

        ids = [int(result.id) for result in results]
        assert ids == sorted(ids)

    def test_keeps_sizes(self) -> None:
        Policy.objects.create(channel="default", scope="channel", max_size=2)

        with batch() as work:
            work.enqueue(jobs.add, 1)
            work.enqueue(jobs.add, 2)

        assert Message.objects.count() == 2

    def test_stores_a_duplicate_of_its_own_once(self) -> None:
        once = jobs.add.using(dedupe_key="k")
        with batch() as work:
            first, second = work.enqueue(once, 1), work.enqueue(once, 2)

        assert (first.id, second.came_of) == (second.id, "existing")

    def test_states_the_last_policy_of_each_scope(self) -> None:
        with batch() as work:
            work.policy("mail", max_running=3)
            work.policy("mail", max_running=4)
            work.policy("mail", key="vip", max_running=9)
            work.policy("mail", each_key=True, max_running=1)

        found = dict(Policy.objects.values_list("scope", "max_running"))
        assert found == {"channel": 4, "key": 9, "each": 1}

    def test_of_nothing_does_nothing(self) -> None:
        with batch():
            pass

    def test_is_to_run_as_it_was_collected(self) -> None:
        with batch() as work:
            results = [
                work.enqueue(jobs.add.using(dedupe_key=key, on_conflict=conflict), n)
                for n, (key, conflict) in enumerate(
                    [("z", "raise"), (None, "return"), ("b", "return"), (None, "return")]
                )
            ]

        ids = [int(result.id) for result in results]
        assert ids == sorted(ids)

    def test_may_have_any_number_of_dedupe_keys(self) -> None:
        once = jobs.add.using(dedupe_key=lambda a: str(a))
        with batch() as work:
            work.enqueue_many(once, [(n,) for n in range(501)])

        assert Message.objects.count() == 501

    def test_may_be_of_500_lanes_in_order(self) -> None:
        ordered = jobs.add.using(key=lambda a: str(a), ordered=True)
        with pytest.raises(BatchTooLarge), batch() as work:
            work.enqueue_many(ordered, [(n,) for n in range(300)])
            work.enqueue_many(ordered.using(priority=1), [(n,) for n in range(250, 501)])

        assert not Message.objects.exists()

    @pytest.mark.parametrize("other", [jobs.add.using(database="second")])
    def test_is_of_one_database(self, other: Any) -> None:
        with pytest.raises(InvalidTask, match="'default'"), batch() as work:
            work.enqueue(other, 1)


@pytest.mark.parametrize(
    "count",
    [pytest.param(30, marks=pytest.mark.slow), pytest.param(125, marks=pytest.mark.nightly)],
)
@pytest.mark.timeout(300)
def test_those_of_eight_processes_end_without_a_deadlock(count: int) -> None:
    Policy.objects.create(channel="c1", scope="channel", max_size=1_000_000)
    Policy.objects.create(channel="c2", scope="each", max_size=1_000_000)

    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRODUCER, str(seed), str(count)],
            cwd=ROOT,
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(PROCESSES)
    ]
    said = [process.communicate(timeout=240)[1] for process in processes]

    assert [process.returncode for process in processes] == [0] * PROCESSES, said
    assert Message.objects.count() > PROCESSES * count


def produce(seed: int, count: int) -> None:
    """Apply so many batches of everything that takes a lock, each in an order of its own."""
    chance = random.Random(seed)
    for _ in range(count):
        with batch() as work:
            for _ in range(chance.randint(2, 8)):
                channel, key = f"c{chance.randint(0, 3)}", f"k{chance.randint(0, 5)}"
                task = jobs.add.using(channel=channel, key=key)
                kind = chance.randrange(6)
                if kind == 0:
                    work.policy(channel, key=key, max_running=chance.randint(1, 5))
                    continue
                if kind == 1:
                    task = task.using(ordered=True)
                elif kind == 2:
                    memory = chance.choice([None, 60])
                    name = f"d{chance.randint(0, 9)}"
                    task = task.using(dedupe_key=name, dedupe_for=memory)
                elif kind == 3:
                    task = task.using(dedupe_key=f"r{chance.randint(0, 9)}", on_conflict="replace")
                elif kind == 4:
                    own = task.using(dedupe_key=lambda a: f"d{a}")
                    work.enqueue_many(own, [(chance.randint(0, 9),) for _ in range(3)])
                    continue
                else:
                    task = task.hold(for_=60)
                work.enqueue(task, 1)
        # And beside batches, many of one task.
        names = chance.sample(range(10), 5)
        jobs.add.using(dedupe_key=lambda a: f"d{a}").enqueue_many([(n,) for n in names])
