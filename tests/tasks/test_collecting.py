"""`on_conflict="collect"`: calls add their items to a waiting message, and one run gets all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from pgqueue import batch, flow, send
from pgqueue.exceptions import DuplicateMessage, InvalidArguments, InvalidMessage, InvalidTask
from pgqueue.models import Message
from pgqueue.tasks import collecting
from pgqueue.testing import advance, run_all
from tests import collecting_jobs as jobs

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def seen() -> Iterator[list[Any]]:
    jobs.seen.clear()
    yield jobs.seen
    jobs.seen.clear()


def items(**of: Any) -> list[Any]:
    found = Message.objects.filter(**of).order_by("id")
    return [[*each.payload["args"], *each.payload["kwargs"].values()] for each in found]


def run_now() -> None:
    Message.objects.update(state="ready", run_at=datetime.now(UTC))
    run_all()


class TestASecondCall:
    def test_adds_its_items_and_one_run_gets_all(self, seen: list[Any]) -> None:
        first = jobs.index.enqueue([1, 2])
        second = jobs.index.enqueue([3])
        third = jobs.index.enqueue(ids=[4])

        assert [each.came_of for each in (first, second, third)] == [
            "stored",
            "collected",
            "collected",
        ]
        assert first.id == second.id == third.id
        assert third.status == "scheduled"
        run_now()
        assert seen == [[1, 2, 3, 4]]
        assert second.wait(timeout=0).return_value == 4

    def test_adds_nothing_where_it_has_no_items(self) -> None:
        for given in ([], [1], [], [2], []):
            jobs.index.enqueue(given)

        assert items() == [[[1, 2]]]

    def test_keeps_each_number_as_it_is(self, seen: list[Any]) -> None:
        task = jobs.any_list.using(dedupe_key="d", on_conflict="collect")
        big = 12345678901234567890123456789
        for given in ([0.1, big], [1e-9, "]", {"a": ["}"]}], [None, True]):
            task.enqueue(given)

        run_now()

        assert seen == [[0.1, big, 1e-9, "]", {"a": ["}"]}, None, True]]

    def test_keeps_the_types_of_the_hint(self, seen: list[Any]) -> None:
        one, two = date(2026, 1, 1), date(2026, 1, 2)
        jobs.days.enqueue(each=[one])
        jobs.days.enqueue(each=[two])

        run_now()

        assert seen == [[one, two]]

    def test_of_many_adds_each(self) -> None:
        results = jobs.index.enqueue_many([([1],), ([2],), ([3],)])

        assert [each.came_of for each in results] == ["stored", "collected", "collected"]
        assert items() == [[[1, 2, 3]]]

    def test_of_many_has_the_ids_in_the_order_of_the_call(self) -> None:
        task = jobs.index.using(dedupe_key=lambda ids: str(ids[0] % 2))

        results = task.enqueue_many([([1],), ([2],), ([3],)])

        assert results[0].id == results[2].id != results[1].id
        assert sorted(items()) == [[[1, 3]], [[2]]]

    def test_of_a_batch_of_drafts_or_on_commit_adds_its_items(self) -> None:
        with batch() as drafts:
            drafts.enqueue(jobs.index, [1])
            drafts.enqueue(jobs.index, [2])
        with transaction.atomic():
            later = jobs.index.using(enqueue_on_commit=True).enqueue([3])
            assert items() == [[[1, 2]]]

        assert later.came_of == "collected"
        assert items() == [[[1, 2, 3]]]

    @pytest.mark.parametrize("conflict", ["collect", "replace"])
    def test_joins_a_message_whose_own_metadata_say_continued(self, conflict: Any) -> None:
        task = jobs.index.using(metadata={"continued": "from a page"}, on_conflict=conflict)

        came_of = [task.enqueue([number]).came_of for number in (1, 2)]

        assert came_of == ["stored", {"collect": "collected", "replace": "replaced"}[conflict]]

    def test_is_one_transaction_with_its_callers(self) -> None:
        jobs.index.enqueue([1])

        with pytest.raises(ZeroDivisionError), transaction.atomic():
            jobs.index.enqueue([2])
            1 / 0  # noqa: B018

        assert items() == [[[1]]]

    def test_puts_the_message_off_until_its_longest_wait(self) -> None:
        task = jobs.index.using(longest_wait=60)
        task.enqueue([1])
        Message.objects.update(created_at=F("created_at") - timedelta(seconds=50))

        task.enqueue([2])

        message = Message.objects.get()
        assert message.run_at - message.created_at == timedelta(seconds=60)
        assert items() == [[[1, 2]]]

    def test_to_a_batch_task_adds_to_one_call(self, seen: list[Any]) -> None:
        jobs.together.enqueue([1])
        jobs.together.enqueue([2])

        run_now()

        assert seen == [[([1, 2],)]]

    @pytest.mark.parametrize("name", ["tests.collecting_jobs.other", ""])
    def test_adds_nothing_to_a_message_of_another_task(self, name: str) -> None:
        jobs.index.enqueue([1])
        Message.objects.update(task=name)

        with pytest.raises(InvalidTask, match=f"dedupe key is of {name or 'no task'}"):
            jobs.index.enqueue([2])

        assert items() == [[[1]]]

    def test_adds_to_a_message_that_has_the_older_name_of_its_task(self) -> None:
        jobs.index.enqueue([1])
        Message.objects.update(task="tests.collecting_jobs.index_ids")

        assert jobs.index.enqueue([2]).came_of == "collected"

        assert Message.objects.get().task == jobs.index.name

    def test_of_a_flow_that_others_wait_for_is_refused(self) -> None:
        jobs.index.enqueue([1])

        with pytest.raises(DuplicateMessage), flow("f") as f:
            f.enqueue(jobs.any_list, [1], after=f.enqueue(jobs.index, [2]))

        assert items() == [[[1]]]


class TestAList:
    @pytest.mark.parametrize(("bound", "most"), [("MOST_ITEMS", 3), ("MOST_BYTES", 32)])
    def test_that_is_full_is_followed_by_another_message(
        self, monkeypatch: pytest.MonkeyPatch, bound: str, most: int
    ) -> None:
        monkeypatch.setattr(collecting, bound, most)
        results = [jobs.index.enqueue([n]) for n in range(1, 6)]

        assert [each.came_of for each in results] == [
            *("stored", "collected", "collected", "stored", "collected")
        ]
        assert items() == [[[1, 2, 3]], [[4, 5]]]
        assert list(Message.objects.order_by("id").values_list("dedupe_key", flat=True)) == [
            None,
            "ids",
        ]

    def test_that_is_longer_from_the_start_is_one_message(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collecting, "MOST_ITEMS", 3)

        jobs.index.enqueue([1, 2, 3, 4, 5])
        jobs.index.enqueue([6])

        assert items() == [[[1, 2, 3, 4, 5]], [[6]]]

    @pytest.mark.parametrize(
        "payload",
        [
            None,
            {"args": [1], "kwargs": {}},
            {"args": [[1], [2]], "kwargs": {}},
            {"args": [[1]], "kwargs": {"ids": [2]}},
            {"args": [], "kwargs": {"others": [2]}},
            {"args": [{"@": "encrypted", "value": "no token"}]},
            {"@": "encrypted", "value": "no token"},
        ],
    )
    def test_that_this_code_does_not_know_is_left_alone(self, payload: Any) -> None:
        jobs.index.enqueue([1])
        Message.objects.update(payload=payload)

        assert jobs.index.enqueue([2]).came_of == "stored"

        first, second = Message.objects.order_by("id")
        assert (first.payload, first.dedupe_key) == (payload, None)
        assert second.payload["args"] == [[2]]

    def test_that_sql_stored_collects(self) -> None:
        jobs.index.enqueue([1])
        for payload in ({"args": [[1]]}, {"kwargs": {"ids": [1]}}):
            Message.objects.update(payload=payload)

            assert jobs.index.enqueue([2]).came_of == "collected"

            assert items() == [[[1, 2]]]


class TestEncryption:
    def test_holds_for_the_joined_list(self, seen: list[Any]) -> None:
        jobs.secret.enqueue(["cellar"])
        jobs.secret.enqueue(["attic"])

        stored = Message.objects.get().payload
        assert stored.keys() == {"@", "value"}
        run_now()
        assert seen == [["cellar", "attic"]]

    def test_of_a_list_beyond_the_limit_is_followed_by_another_message(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(collecting, "MOST_BYTES", 1000)
        monkeypatch.setattr("pgqueue.codec.encrypted.PAYLOAD_LIMIT", 1400)
        results = [jobs.secret.enqueue(["x" * 600]) for _ in range(2)]

        assert [each.came_of for each in results] == ["stored", "stored"]

    def test_is_never_lost_by_a_task_without_it(self) -> None:
        jobs.secret.enqueue(["cellar"])
        decrypted = replace(jobs.secret, encrypted=False)  # as the next version declares it

        assert decrypted.enqueue(["attic"]).came_of == "stored"

        first, second = Message.objects.order_by("id")
        assert first.payload.keys() == {"@", "value"}
        assert second.payload["args"] == [["attic"]]

    def test_is_gained_by_a_message_of_a_task_without_it(self, seen: list[Any]) -> None:
        jobs.plain.enqueue(["cellar"])
        Message.objects.update(task=jobs.secret.name)

        assert jobs.secret.enqueue(["attic"]).came_of == "collected"

        assert "cellar" not in str(Message.objects.get().payload)
        run_now()
        assert seen == [["cellar", "attic"]]


class TestWhatIsRefused:
    @pytest.mark.parametrize("task", [jobs.two, jobs.many])
    def test_is_a_function_without_one_list(self, task: Any) -> None:
        with pytest.raises(InvalidTask, match="must have one parameter, a list"):
            task.using(dedupe_key="d", on_conflict="collect")

    @pytest.mark.parametrize("given", [(1, 2), 1, None, {1}, "ab"])
    def test_is_an_argument_that_is_no_list(self, given: Any) -> None:
        task = jobs.any_list.using(dedupe_key="d", on_conflict="collect")

        with pytest.raises(InvalidArguments, match=r"argument 'items' of .* must be a list"):
            task.enqueue(given)

        assert not Message.objects.exists()

    def test_is_a_key_that_is_remembered(self) -> None:
        with pytest.raises(InvalidTask, match="on_conflict='collect' replaces the message"):
            jobs.index.using(dedupe_for=60)

    def test_is_a_raw_message(self) -> None:
        options: Any = {"dedupe_key": "d", "on_conflict": "collect"}
        with pytest.raises(InvalidMessage, match="only a task has a list"):
            send("mail", [1], **options)


def test_a_message_of_a_flow_is_no_waiting_message() -> None:
    with flow("f") as f:
        f.enqueue(jobs.index, [1])

    again = jobs.index.enqueue([2])

    assert again.came_of == "stored"
    assert items() == [[[1]], [[2]]]


def test_a_durable_run_that_has_begun_keeps_its_arguments(seen: list[Any]) -> None:
    first = jobs.index_in_steps.using(on_conflict="return").enqueue([1])
    run_all()
    first.refresh()
    assert first.status == "scheduled"

    second = jobs.index_in_steps.enqueue([2])

    assert second.came_of == "stored"
    run_all()
    advance(3601)
    run_all()
    assert sorted(seen) == [[1], [2]]


@pytest.mark.parametrize(
    ("on_conflict", "came_of"), [("collect", "stored"), ("replace", "existing")]
)
def test_a_message_that_has_stored_its_progress_keeps_its_arguments(
    seen: list[Any], on_conflict: Any, came_of: str
) -> None:
    jobs.index_a_part.using(on_conflict="return").enqueue([1])
    run_all()

    second = jobs.index_a_part.using(on_conflict=on_conflict).enqueue([2])

    assert second.came_of == came_of
    advance(61)
    run_all()
    assert ([1], 500) in seen
    assert ([2], 500) not in seen


def test_a_held_message_is_not_collected_into_others() -> None:
    with pytest.raises(InvalidTask, match="hold_for would hold what another caller"):
        jobs.index.hold(for_=60)
    with pytest.raises(InvalidMessage, match="hold_for would hold what another caller"):
        send("mail", 1, dedupe_key="d", on_conflict="replace", hold_for=60)
