"""Operations on all messages that a filter finds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.utils import timezone

from pgqueue import Channel, ChannelFull
from pgqueue.engine import operate as engine
from pgqueue.models import History, Message, Operation
from pgqueue.operating import bulk
from pgqueue.operating.bulk import Filter
from pgqueue.operating.channels import WAITING
from pgqueue.testing import run_all
from tests.factories import (
    Connection,
    bury,
    enqueue,
    hold,
    limit,
    make_due,
    refusing,
    run,
    schedule,
)


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "BATCH", 2)
    monkeypatch.setattr("pgqueue.listing.index.STRETCH", 5)
    monkeypatch.setattr("pgqueue.listing.index.REACH", 7)


def start(operation: str, **wanted: str) -> int:
    return int(bulk.start(operation, Filter(**wanted), newest=bulk.newest()).id)


def progress(id: int) -> Any:
    rows = [*Message.objects.filter(pk=id), *History.objects.filter(pk=id)]
    return rows[0].progress


def states() -> dict[int, str]:
    rows = Message.objects.exclude(task__in=bulk.TASKS)
    return dict(rows.values_list("id", "state"))


def test_all_that_the_filter_finds_is_operated_on_and_nothing_else(queue: Connection) -> None:
    mail = bury(queue, 13, channel="mail")
    others = [*bury(queue, 9, channel="reports"), *schedule(queue, 3, channel="mail")]
    before = {id: state for id, state in states().items() if id in others}

    id = start("replay", state="dead", channel="mail")
    run_all()

    assert History.objects.get(pk=id).result == {"done": 13, "asked": 0, "busy": 0}
    after = states()
    assert {after.get(id, "run") for id in mail} <= {"ready", "scheduled", "dead", "run"}
    assert {id: after[id] for id in others} == before
    assert progress(id)["done"] == 13


@pytest.mark.parametrize(
    ("wanted", "met"),
    [
        ({"task": "shop.tasks.send"}, {"task"}),
        ({"key": "a"}, {"key"}),
        ({"error": "ForkliftStuck"}, {"error"}),
        ({"error": "shop.ForkliftStuck"}, {"error"}),
        ({"error": "liftStuck"}, set()),
        ({"state": "scheduled"}, {"scheduled"}),
        ({}, {"task", "key", "error", "scheduled"}),
    ],
)
def test_each_part_of_the_filter_counts(
    queue: Connection, wanted: dict[str, str], met: set[str]
) -> None:
    made = {
        "task": hold(queue, task="shop.tasks.send", channel="a"),
        "key": hold(queue, key="a"),
        "error": hold(queue, channel="b"),
        "scheduled": schedule(queue),
    }
    Message.objects.filter(pk__in=made["error"]).update(errors=[{"class": "shop.ForkliftStuck"}])

    start("cancel", **wanted)
    run_all()

    ended = set(History.objects.filter(outcome="cancelled").values_list("pk", flat=True))
    assert ended == {id for name in met for id in made[name]}


def test_what_came_after_it_was_asked_for_is_let_alone(queue: Connection) -> None:
    old = bury(queue, 3)
    newest = bulk.newest()
    later = bury(queue, 3)

    bulk.start("discard", Filter(state="dead"), newest=newest)
    run_all()

    assert set(states()) == set(later)
    assert History.objects.filter(pk__in=old, outcome="discarded").count() == 3


def test_an_error_undoes_its_batch_alone_and_the_next_run_goes_on_from_there(
    queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bury(queue, 7)
    seen: list[int] = []

    def verb(connection: Connection, ids: Any) -> Any:
        operated = engine.discard(connection, ids)
        if len(seen) == 4 and not History.objects.filter(task=bulk.operate.name).exists():
            seen.append(-1)
            raise DatabaseError("gone")
        seen.extend(sorted(operated.done, reverse=True))
        return operated

    monkeypatch.setitem(engine.VERBS, "discard", verb)
    id = start("discard", state="dead")
    run_all()
    assert progress(id)["done"] == 4
    assert Message.objects.dead().count() == 3

    make_due(queue, [id])
    run_all(retries=True)

    assert [each for each in seen if each > 0] == sorted(ids, reverse=True)
    assert History.objects.get(pk=id).result["done"] == 7


def test_a_message_that_can_not_be_changed_is_left_and_counted(
    queue: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    ids = bury(queue, 9, channel="mail")

    with refusing(queue, "pgqueue_message", f"OLD.id = {ids[4]}", "UPDATE OR DELETE"):
        id = start("discard", channel="mail")
        run_all()

    assert History.objects.get(pk=id).result == {"done": 8, "asked": 0, "busy": 1}
    assert progress(id)["busy_ids"] == [ids[4]]
    assert states() == {ids[4]: "dead"}
    assert f"discard fails because of pgqueue_message {ids[4]}" in caplog.text


def test_a_message_that_dies_again_meanwhile_is_not_replayed_twice(
    queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = bury(queue, 6)
    replayed: list[int] = []

    def verb(connection: Connection, batch: Any) -> Any:
        operated = engine.replay(connection, batch)
        replayed.extend(operated.done)
        Message.objects.filter(pk__in=batch).update(state="dead")
        return operated

    monkeypatch.setitem(engine.VERBS, "replay", verb)
    start("replay", state="dead")
    run_all()

    assert sorted(replayed) == ids


def test_it_hands_its_message_back_after_a_while_and_goes_on(
    queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "RUN_FOR", -1)
    bury(queue, 6)

    id = start("discard", state="dead")
    run_all()

    row = History.objects.get(pk=id)
    assert (row.result["done"], row.failures, row.attempt > 3) == (6, 0, True)


def test_it_stops_after_the_batch_that_it_is_at_if_it_is_cancelled(
    queue: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(queue, 6)
    id = start("discard", state="dead")

    def verb(connection: Connection, batch: Any) -> Any:
        Message.objects.filter(pk=id).cancel()
        return engine.discard(connection, batch)

    monkeypatch.setitem(engine.VERBS, "discard", verb)
    run_all()

    assert History.objects.get(pk=id).outcome == "cancelled"
    assert progress(id)["done"] == 2
    assert len(states()) == 4


def test_an_operation_on_everything_does_not_end_operations(queue: Connection) -> None:
    enqueue(queue, 2)
    other = start("cancel", channel="nothing")

    id = start("cancel")
    run_all()

    outcomes = dict(History.objects.filter(pk__in=[id, other]).values_list("pk", "outcome"))
    assert outcomes == {id: "succeeded", other: "succeeded"}
    assert states() == {}


def test_what_runs_is_asked_to_stop_and_counted(queue: Connection) -> None:
    run(queue, 2, channel="elsewhere")
    enqueue(queue, channel="mail")

    id = start("cancel")
    run_all()

    assert History.objects.get(pk=id).result == {"done": 1, "asked": 2, "busy": 0}


def test_its_end_is_logged_once_for_who_asked(queue: Connection) -> None:
    user = User.objects.create(username="op")
    bury(queue, 3)

    result = bulk.start(
        "discard",
        Filter(state="dead"),
        newest=bulk.newest(),
        user={"id": user.pk, "name": user.username},
    )
    run_all()

    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id) == (user, result.id)
    assert entry.get_change_message() == "Discard: ended, 3 done."


def test_one_whose_user_is_gone_ends_all_the_same(queue: Connection) -> None:
    bury(queue)

    gone = {"id": 77, "name": "gone"}
    result = bulk.start("discard", Filter(state="dead"), newest=bulk.newest(), user=gone)
    run_all()

    assert History.objects.get(pk=result.id).outcome == "succeeded"


@pytest.mark.parametrize(
    "wanted", [{"state": "lost"}, {"channel": ""}, {"task": "a\0"}, {"key": "k" * 2000}]
)
def test_a_filter_that_can_not_be_is_refused(wanted: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="."):
        Filter(**wanted)


def test_an_operation_that_there_is_none_of_is_refused(db: None) -> None:
    with pytest.raises(ValueError, match="no operation. Did you mean 'replay'?"):
        bulk.start("repla", Filter(), newest=1)


def test_an_operation_that_a_full_channel_drops_is_refused(db: None) -> None:
    limit(bulk.CHANNEL, scope="channel", max_size=1)
    Channel(bulk.CHANNEL).configure(on_full="drop")
    bulk.start("replay", Filter(), newest=0)

    with pytest.raises(ChannelFull):
        bulk.start("replay", Filter(), newest=0)


def test_the_share_of_the_ids_grows_to_all(queue: Connection) -> None:
    shares = [
        bulk.OperationProgress(newest=10).share,
        bulk.OperationProgress(newest=10, walked=5).share,
        bulk.OperationProgress(newest=10, walked=10).share,
        bulk.OperationProgress(newest=10, walked=10, has_ended=True).share,
        bulk.OperationProgress(newest=0).share,
    ]

    assert shares == [0.0, 0.5, 0.99, 1.0, 0.0]


class TestAPurge:
    def test_ends_what_is_in_its_states_and_nothing_else(self, queue: Connection) -> None:
        gone = [*enqueue(queue, 5, channel="mail"), *schedule(queue, channel="mail")]
        newest = bulk.newest()
        later = enqueue(queue, channel="mail")
        others = [*enqueue(queue, 3), *[claim.id for claim in run(queue, channel="runs")]]

        id = bulk.start_purge("mail", newest=newest).id
        run_all()

        ended = History.objects.filter(outcome="discarded").values_list("pk", flat=True)
        assert sorted(ended) == sorted(gone)
        assert {*later, *others} <= states().keys()
        assert History.objects.get(pk=id).result["done"] == 6

    def test_leaves_a_message_that_can_not_be_removed(self, queue: Connection) -> None:
        ids = enqueue(queue, 9, channel="mail")

        with refusing(queue, "pgqueue_message", f"OLD.id = {ids[4]}", "DELETE"):
            id = int(bulk.start_purge("mail", newest=bulk.newest()).id)
            run_all()

        assert History.objects.get(pk=id).result["done"] == 8
        assert states().keys() == {ids[4]}

    def test_may_be_of_one_state(self, queue: Connection) -> None:
        dead, waiting = bury(queue, 2), schedule(queue, 2)

        bulk.start_purge("default", newest=bulk.newest(), states=["scheduled"])
        run_all()

        assert states().keys() == set(dead)
        assert not set(waiting) & states().keys()

    def test_may_keep_the_newest(self, queue: Connection) -> None:
        ids = schedule(queue, 5)

        bulk.start_purge("default", newest=bulk.newest(), states=WAITING, keep=2)
        run_all()

        assert sorted(states()) == ids[3:]

    def test_may_be_of_what_is_too_old(self, queue: Connection) -> None:
        old, young = schedule(queue, 3), schedule(queue, 2)
        Message.objects.filter(pk__in=old).update(created_at=timezone.now() - timedelta(hours=2))

        bulk.start_purge("default", newest=bulk.newest(), states=WAITING, older_than=3600)
        run_all()

        assert sorted(states()) == young

    def test_by_age_counts_from_the_request(self, queue: Connection) -> None:
        old, young = schedule(queue, 3), schedule(queue, 2)
        id = int(
            bulk.start_purge("default", newest=bulk.newest(), states=WAITING, older_than=3600).id
        )
        # The run begins two hours later: the young ones are older than an hour by then.
        for ids, hours in ((old, 4), ([*young, id], 2)):
            Message.objects.filter(pk__in=ids).update(
                created_at=timezone.now() - timedelta(hours=hours)
            )

        run_all()

        assert sorted(states()) == young

    def test_by_age_leaves_messages_that_came_after_the_count(self, queue: Connection) -> None:
        schedule(queue, 2)
        newest = bulk.newest()
        later = schedule(queue, 2)

        bulk.start_purge("default", newest=newest, states=WAITING, older_than=0)
        run_all()

        assert sorted(states()) == later

    def test_goes_on_where_it_was_and_keeps_what_it_was_to_keep(
        self, queue: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bulk, "RUN_FOR", -1)
        monkeypatch.setattr("pgqueue.engine.purge.BATCH", 2)
        ids = schedule(queue, 8)

        id = bulk.start_purge("default", newest=bulk.newest(), states=WAITING, keep=3).id
        run_all()

        row = History.objects.get(pk=id)
        assert (row.result["done"], row.attempt > 2, row.failures) == (5, True, 0)
        assert sorted(states()) == ids[5:]

    def test_what_runs_is_refused(self, db: None) -> None:
        with pytest.raises(ValueError, match="cancel them"):
            bulk.start_purge("mail", newest=1, states=["running"])


def test_a_message_that_only_looks_like_an_operation_does_nothing(queue: Connection) -> None:
    dead, waiting = bury(queue, 3), schedule(queue, 2)
    user = User.objects.create(username="ada")
    forged = {"acting": {"user": {"id": user.pk, "name": "ada"}}}
    for task, arguments in (
        (bulk.operate, ("discard", bulk.newest(), {})),
        (bulk.purge, ("purge", bulk.newest(), "default", ["scheduled"], None, None)),
    ):
        task.using(metadata=forged).enqueue(*arguments)
    run_all()

    assert set(states()) == {*dead, *waiting}
    refused = Message.objects.dead().filter(task__in=bulk.TASKS)
    assert {each.errors[0]["class"] for each in refused} == {"pgqueue.exceptions.UnknownOperation"}
    assert refused.count() == 2
    assert not LogEntry.objects.exists()


def test_an_operation_is_forgotten_once_its_message_is_gone(queue: Connection) -> None:
    first = start("replay", state="dead")
    run_all()
    second = start("replay", state="dead")
    assert set(Operation.objects.values_list("pk", flat=True)) == {first, second}

    History.objects.filter(pk=first).delete()
    third = start("replay", state="dead")

    assert set(Operation.objects.values_list("pk", flat=True)) == {second, third}
