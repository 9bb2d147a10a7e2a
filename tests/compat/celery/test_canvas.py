"""What Celery's user guide shows of its canvas: each example's twin."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from pgqueue import Channel
from pgqueue.compat.celery import (
    Signature,
    chain,
    chord,
    chunks,
    exceptions,
    group,
    maybe_signature,
    signals,
    signature,
    states,
)
from pgqueue.compat.celery import uuid as make_id
from pgqueue.compat.celery.placing import Placing
from pgqueue.compat.celery.result import (
    AsyncResult,
    GroupResult,
    ResultSet,
    result_from_tuple,
)
from pgqueue.exceptions import InvalidArguments, InvalidTask, WaitTimeout
from pgqueue.models import Dedupe, Flow, History, Message
from pgqueue.tasks import redacting
from pgqueue.tasks.flow_building import Draft
from pgqueue.testing import run_all
from tests.compat.celery import jobs
from tests.compat.celery.jobs import SEEN, add, mul, tsum

pytestmark = pytest.mark.django_db


@contextmanager
def connected(signal: Any, receiver: Any) -> Iterator[None]:
    """Have a receiver be connected in this block."""
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


FAIL = "tests.compat.celery.jobs.fail"


def ran(result: Any) -> Any:
    """Run what was stored; return the result."""
    run_all()
    return result


def values(*results: Any) -> list[Any]:
    """Run what was stored, at once; return what it returned."""
    run_all()
    return [each.get() for each in results]


class TestSignatures:
    def test_a_signature_is_a_call_that_is_not_made_yet(self) -> None:
        call = signature(add.name, args=(2, 2), countdown=10)

        assert (call.args, call.kwargs, call.options) == ((2, 2), {}, {"countdown": 10})
        assert call == add.signature((2, 2), countdown=10)
        assert repr(add.s(2, y=2)) == f"{add.name}(2, y=2)"
        assert not Message.objects.exists()

    def test_arguments_that_are_given_later_come_first(self) -> None:
        partial = add.s(2)

        assert ran(partial.delay(4)).args == [4, 2]
        assert ran(partial.apply_async((4,))).get() == 6
        assert ran(jobs.note.s(1).delay(0, debug=True)) and SEEN == [(0, 1, {"debug": True})]

    def test_options_that_are_given_later_hold(self) -> None:
        call = add.signature((2, 2), countdown=10)
        message = Message.objects.get(pk=call.apply_async(countdown=1).id)

        assert message.run_at - message.created_at == timedelta(seconds=1)
        assert call.options == {"countdown": 10}

    def test_a_clone_is_another_one(self) -> None:
        call = add.s(2)
        clone = call.clone(args=(4,), kwargs={"debug": True})

        assert (clone.args, clone.kwargs, call.args) == ((4, 2), {"debug": True}, (2,))
        assert call.replace(args=(1, 2)).args == (1, 2)
        assert copy.deepcopy(call) == call and pickle.loads(pickle.dumps(call)) == call  # noqa: S301

    def test_one_that_is_immutable_takes_no_others(self) -> None:
        add.apply_async((2, 2), link=jobs.note.signature(immutable=True))
        add.apply_async((2, 2), link=jobs.note.si())
        run_all()

        assert SEEN == [(), ()]

    def test_it_travels_as_an_argument(self) -> None:
        ids = ran(jobs.spread.delay([1, 2, 3], mul.s(10))).get()
        run_all()

        assert [AsyncResult(id).get() for id in ids] == [10, 20, 30]
        for sig in (chain(add.s(1), add.s(2)), group(add.s(1)), chord([add.s(1)], tsum.s()),
                    add.map([1]), add.starmap([(1, 2)]), chunks(add, [(1, 2)], 1)):  # fmt: skip
            assert maybe_signature(dict(sig)) == sig
            assert type(maybe_signature(dict(sig))) is type(sig)

    def test_options_are_the_third_argument_as_in_celery(self) -> None:
        for make in (add.signature, add.subtask):
            call = make((2, 2), {}, {"countdown": 10}, priority=3)
            message = Message.objects.get(pk=call.delay().id)

            assert (call.options, call.immutable) == ({"countdown": 10, "priority": 3}, False)
            assert message.run_at - message.created_at == timedelta(seconds=10)
        assert add.signature((2,), immutable=True).immutable

    def test_it_is_changed_in_place(self) -> None:
        call = add.s(2)
        call.args, call.kwargs, call.options = [1], {"y": 1}, {"queue": "sums"}
        call.task, call.immutable = mul, True

        assert call == mul.signature((1,), {"y": 1}, queue="sums", immutable=True)
        assert ran(call.delay(5)).get() == 1

    def test_it_is_made_of_its_dict_whatever_app_is_named(self) -> None:
        call = Signature.from_dict(dict(add.s(1, 2)), app=jobs.app)

        assert call == add.s(1, 2) == signature(add.name, (1, 2), app=jobs.app)
        for made in (chain, group):
            assert made(call, app=jobs.app) == made(call)
        assert chord([call], tsum.s(), app=jobs.app) == chord([call], tsum.s())

    @pytest.mark.parametrize(("make", "value"), [
        (lambda: add.s(2, 2), 16),
        (lambda: chain(add.s(1, 1), add.s(2)), 16),
        (lambda: chord([add.s(2, 2)], tsum.s()), 16),
        (lambda: group(add.s(2, 2), add.s(1, 1)) | tsum.s(), 24),
    ])  # fmt: skip
    def test_a_pipe_in_place_is_a_pipe(self, make: Any, value: Any) -> None:
        call = make()
        first = call
        call |= mul.s(4)

        assert ran(call()).get() == value
        assert first == make()

    def test_a_group_that_is_piped_in_place_becomes_a_chord(self) -> None:
        call: Any = group(add.s(2, 2), add.s(1, 1))
        call |= tsum.s()

        assert ran(call()).get() == 6
        with pytest.raises(TypeError):
            call |= 5

    def test_what_is_none_is_an_error(self) -> None:
        with pytest.raises(InvalidTask, match="neither a task nor a signature"):
            signature(5)
        with pytest.raises(InvalidTask, match="not the dict of a signature"):
            signature({"task": 5})
        with pytest.raises(exceptions.Unsupported, match="headers="):
            add.s(1).stamp(None)
        with pytest.raises(TypeError):
            add.s(1) | 5

    def test_a_frozen_one_has_its_id_already(self) -> None:
        call = add.s(2, 2)
        result = call.freeze()

        assert (result.id, result.state) == (call.id, states.PENDING)
        call.delay()
        assert ran(result).get() == 4
        with pytest.raises(exceptions.Unsupported, match="apply_async"):
            chain(add.s(1), add.s(2)).freeze()


class TestLinks:
    def test_a_link_gets_what_the_task_returned(self) -> None:
        result = ran(add.apply_async((2, 2), link=mul.s(16)))

        assert result.get() == 4
        assert [each.get() for each in result.children] == [64]
        assert [value for _, value in result.collect()] == [4, 64]

    def test_what_follows_is_collected_as_it_ends(self) -> None:
        result = add.apply_async((2, 2), link=[mul.s(16), add.s(1)])
        with pytest.raises(exceptions.IncompleteStream):
            list(result.iterdeps())
        assert len(list(result.iterdeps(intermediate=True))) == 3
        run_all()

        assert [value for _, value in result.collect(intermediate=True)] == [4, 64, 5]
        assert [parent for parent, _ in result.iterdeps()] == [None, result, result]
        assert result.get_leaf() == 5

    def test_several_links_and_links_of_links(self) -> None:
        call = add.s(2, 2)
        assert call.link(mul.s(4)) == mul.s(4)
        call.link(mul.s(4))
        call.link(jobs.note.s())
        ran(call.delay())
        ran(add.apply_async((1, 1), link=[jobs.note.s(), chain(add.s(1), jobs.note.s())]))

        assert SEEN == [(4,), (2,), (3,)]
        assert History.objects.filter(task=mul.name).count() == 1

    def test_a_result_that_nobody_asked_for_is_kept_for_who_takes_it(self) -> None:
        assert ran(jobs.hush.apply_async((5,), link=jobs.note.s())).get() == 5
        assert SEEN == [(5,)]
        assert ran(chain(jobs.hush.s(1), jobs.hush.s())()).get() is None

    def test_an_errback_gets_the_task_id_that_was_given(self) -> None:
        errbacks = [jobs.log_id.s(), jobs.note_id.s(), jobs.note_id_with_a_tag.s(tag="a")]
        jobs.fail.apply_async(("no",), task_id="job-1", link_error=errbacks)
        run_all()

        assert SEEN == ["job-1"] * 3

    def test_arguments_and_handlers_have_the_results_that_they_stand_for(self) -> None:
        heard: list[Any] = []

        def hear(args: Any, **more: Any) -> None:
            heard.append(list(args))

        with connected(signals.task_prerun, hear), connected(signals.task_postrun, hear):
            result = chain(add.s(70, 7), jobs.noisy_add.s(1))()
            ran(chord([add.s(1, 1), add.s(2, 2)], jobs.noisy_sum.s())())

        assert [seen[2] for seen in SEEN if seen[0] == "on_success"] == [[77, 1], [[2, 4]]]
        assert heard.count([77, 1]) == heard.count([[2, 4]]) == 2
        assert AsyncResult(result.id).args == [77, 1]

    def test_retry_takes_the_arguments_of_the_request_in_a_chain(self) -> None:
        assert ran(chain(add.s(1, 1), jobs.retry_with_its_arguments.s())()).get() == 2

    def test_a_link_of_a_task_that_fails_waits_for_its_replay(self) -> None:
        result = ran(jobs.fetch.apply_async((9,), link=jobs.note.s()))

        assert result.failed() and SEEN == []
        Message.objects.filter(state="dead").update(payload={"args": [0], "kwargs": {}})
        Channel("default").replay()
        run_all()
        assert SEEN == [(0,)]

    @pytest.mark.parametrize("call", [
        lambda: jobs.fail.apply_async(("no",), link_error=jobs.log_error.s()),
        lambda: jobs.fail.s("no").on_error(jobs.log_error.s()).delay(),
        lambda: chain(add.s(1, 1), jobs.fail.si("no"), add.s(1)).on_error(jobs.log_error.s())(),
        lambda: group(add.s(1, 1), jobs.fail.s("no")).link_error(jobs.log_error.s())
        and group(jobs.fail.s("no").on_error(jobs.log_error.s()), add.s(1, 1))(),
    ])  # fmt: skip
    def test_an_errback_is_called_with_the_request_and_the_error(self, call: Any) -> None:
        ran(call())

        assert SEEN == [(FAIL, ["no"], "ValueError('no')", True)]

    def test_an_errback_of_one_argument_gets_the_id(self) -> None:
        result = ran(jobs.fail.apply_async(("no",), link_error=[jobs.note_id.s()]))
        run_all()

        assert [result.id] == SEEN

    def test_an_errback_is_not_called_after_a_success_or_a_revocation(self) -> None:
        ran(add.apply_async((1, 1), link_error=jobs.log_error.s()))
        result = add.apply_async((1, 1), link_error=jobs.log_error.s(), countdown=60)
        result.revoke()
        run_all()

        assert SEEN == [] and not Message.objects.exists()
        flow = Flow.objects.latest("id")
        assert set(History.objects.filter(flow_id=flow.pk).values_list("outcome", flat=True)) == {
            "cancelled", "succeeded",
        }  # fmt: skip

    def test_an_errback_that_fails_is_a_dead_letter(self) -> None:
        jobs.fail.apply_async(("no",), link_error=jobs.fail.s("neither").set(immutable=True))
        ran(jobs.fail.apply_async(("no",), link_error=jobs.log_error.s(1)))

        names = Message.objects.filter(state="dead").values_list("task", flat=True)
        assert sorted(names) == ["pgqueue.compat.celery.linking.call_errback", FAIL, FAIL, FAIL]

    def test_what_an_errback_is_given_is_shown_to_nobody(self) -> None:
        add.apply_async((1, 1), link_error=jobs.log_error.s("secret"))

        message = Message.objects.latest("id")
        assert "secret" in str(message.payload)
        shown, _ = redacting.redacted_values(message.task, {"payload": message.payload})
        assert "secret" not in str(shown) and "log_error" in str(shown)

    def test_an_errback_is_one_task(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="link each"):
            add.apply_async((1, 1), link_error=group(jobs.log_error.s()))


class TestChains:
    def test_each_gets_what_the_one_before_it_returned(self) -> None:
        result = ran(chain(add.s(2, 2), add.s(4), add.s(8))())

        assert result.get() == 16
        assert result.parent.get() == 8
        assert result.parent.parent.get() == 4
        assert result.parent.parent.parent is None
        assert Flow.objects.get().name == add.name

    def test_a_pipe_makes_one(self) -> None:
        assert values(
            (add.s(2, 2) | add.s(4) | add.s(8))(),
            (add.s(4) | mul.s(8))(16),
        ) == [16, 160]
        assert repr(add.s(1) | mul.s(2)) == f"{add.name}(1) | {mul.name}(2)"

    def test_immutable_ones_are_independent(self) -> None:
        result = ran((add.si(2, 2) | add.si(4, 4) | add.si(8, 8))())

        assert (result.get(), result.parent.get(), result.parent.parent.get()) == (16, 8, 4)

    def test_chains_and_generators_are_put_into_chains(self) -> None:
        assert values(
            chain(add.s(1), chain(add.s(2), add.s(3)), add.s(4))(0),
            chain(add.s(number) for number in range(5))(3),
        ) == [10, 13]
        assert chain()() is None
        assert ran(chain(add.s(1, 2))()).get() == 3
        with pytest.raises(InvalidTask, match="without tasks"):
            group(chain(add.s(1, 1), chain(group())), chord([add.s(1, 1)], chain()))()

    def test_its_tasks_are_changed_in_place(self) -> None:
        whole = chain(add.s(1, 1), add.s(1))
        copied = whole.clone()
        whole.tasks[0].set(queue="sums")
        whole.tasks.append(mul.s(10))
        result = whole()

        assert Message.objects.order_by("id").first().channel == "sums"
        assert ran(result).get() == 30
        assert copied == chain(add.s(1, 1), add.s(1))
        whole.tasks = [add.s(1, 1)]
        assert whole == chain(add.s(1, 1))

    def test_options_belong_to_the_first_task_and_the_id_to_the_last(self) -> None:
        id = make_id()
        result = chain(add.s(2, 2), add.s(4)).apply_async(task_id=id, queue="sums", link=add.s(1))

        assert result.id == id
        assert Message.objects.order_by("id").first().channel == "sums"
        run_all()
        assert AsyncResult(id).get() == 8
        assert [each.get() for each in AsyncResult(id).children] == [9]

    @pytest.mark.parametrize("last", [add.s(1), add.si(1, 1), jobs.double.s()])
    def test_the_rest_fails_with_the_error_of_one_that_failed(self, last: Any) -> None:
        result = ran(chain(add.s(1, 1), jobs.fail.s(), jobs.hush.s(), last)())
        known_elsewhere = AsyncResult(result.id)

        assert (result.state, result.parent.state) == (states.FAILURE, states.FAILURE)
        for each in (result, known_elsewhere):
            with pytest.raises(ValueError, match="2"):
                each.get(timeout=5)
        assert repr(known_elsewhere.get(timeout=0, propagate=False)) == "ValueError('2')"

    @pytest.mark.parametrize("last", [add.s(1), add.si(2, 3)])
    def test_the_rest_comes_back_with_the_replay_of_one_that_failed(self, last: Any) -> None:
        result = ran(chain(jobs.fetch.s(9), add.s(2), jobs.hush.s(), last)())
        assert result.failed()

        Message.objects.filter(task=jobs.fetch.name).update(payload={"args": [0], "kwargs": {}})
        Message.objects.filter(task=jobs.fetch.name).replay()
        assert set(Message.objects.values_list("state", flat=True)) == {"ready", "held"}
        run_all()

        value = 3 if last.args == (1,) else 5
        assert AsyncResult(result.id).get(timeout=5) == value
        assert not Message.objects.exists()

    def test_a_part_of_the_rest_that_is_replayed_alone_fails_again(self) -> None:
        result = ran(chain(jobs.fail.s("no"), add.s(2))())
        Message.objects.filter(task=add.name).replay()
        run_all()

        assert result.failed() and repr(AsyncResult(result.id).result) == "ValueError('no')"

    def test_the_rest_is_not_retried_and_its_handlers_are_not_called(self) -> None:
        ran(chain(jobs.fail_untyped.s("no"), jobs.noisy_sum.s(), jobs.refresh_timeline.s())())

        assert SEEN == []
        assert set(Message.objects.values_list("failures", flat=True)) == {1}

    def test_the_rest_of_one_that_was_revoked_is_revoked(self) -> None:
        result = chain(add.signature((1, 1), countdown=60), add.s(1))()
        result.parent.revoke()
        run_all()

        assert AsyncResult(result.id).state == states.REVOKED

    @pytest.mark.parametrize("call", [
        lambda: chain(group(add.si(1, 1), add.s(2, 2))),
        lambda: chain(chain(group(add.si(1, 1), add.s(2, 2)))),
        lambda: chain(*[group(add.si(1, 1), add.s(2, 2))]),
        lambda: chain([group(add.si(1, 1), add.s(2, 2))]),
    ])  # fmt: skip
    def test_the_tasks_of_one_group_are_side_by_side(self, call: Any) -> None:
        result = call()()

        assert isinstance(result, GroupResult)
        assert set(Message.objects.values_list("state", flat=True)) == {"ready"}
        assert ran(result).get() == [2, 4]

    def test_a_group_of_one_is_its_task_wherever_it_is_in_a_chain(self) -> None:
        assert values(
            chain(group(add.s(1, 1)), add.s(1))(),
            chain(group(add.s(1, 1)))(),
            chain(group(), add.s(1, 1), group(), group(add.s(1)), group())(),
        ) == [3, 2, 3]

    def test_a_chain_may_be_longer_than_the_stack_is_deep(self) -> None:
        result = chain(add.si(1, 1) for _ in range(1500))()

        assert Message.objects.count() == 1500
        assert len(result.as_list()) == 1500
        assert result_from_tuple(result.as_tuple()).as_list() == result.as_list()

    def test_all_is_stored_or_nothing(self) -> None:
        with pytest.raises(InvalidArguments):
            chain(add.s(1, 1), add.s(object()))()
        with pytest.raises(InvalidArguments):
            group(add.s(1, 1), add.s(1, 2, 3))()
        with pytest.raises(InvalidArguments, match="returns, which this parameter doesn't take"):
            chain(jobs.refresh_timeline.s("nobody"), jobs.double.s())()
        assert not Message.objects.exists() and not Flow.objects.exists()

    @pytest.mark.django_db(transaction=True)
    def test_it_is_part_of_the_transaction(self) -> None:
        with transaction.atomic():
            chain(add.s(1, 1), add.s(1))()
            transaction.set_rollback(True)

        assert not Message.objects.exists()


class TestGroups:
    def test_tasks_run_side_by_side(self) -> None:
        result = group(add.s(number, number) for number in range(10))()

        assert (result.ready(), result.waiting(), result.completed_count()) == (False, True, 0)
        run_all()
        assert result.get(timeout=1) == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
        assert (result.ready(), result.successful(), result.failed()) == (True, True, False)
        assert (result.completed_count(), len(result), result[1].get()) == (10, 10, 2)
        assert result.children == result.results == list(result)
        assert list(result.iterate()) == result.join() == result.get()

    def test_partial_arguments_are_those_of_each(self) -> None:
        assert values(
            group(add.s(1), add.s(2)).delay(10),
            group([add.s(), add.s(), mul.s()])(2, 3),
            group(add.s(1, 1), queue="sums").apply_async(priority=3),
        ) == [[11, 12], [5, 5, 6], [2]]
        assert History.objects.latest("id").channel == "sums"

    def test_a_call_takes_options(self) -> None:
        [first, second] = group(add.s(1), add.s(2))(10, countdown=60, queue="sums")

        for result, args in ((first, [10, 1]), (second, [10, 2])):
            message = Message.objects.get(pk=result.id)
            assert (message.state, message.channel) == ("scheduled", "sums")
            assert message.payload == {"args": args, "kwargs": {}}

    def test_one_that_came_as_an_argument_is_changed_in_place(self) -> None:
        given = json.dumps(group(add.s(1), add.s(2)))
        skewed, fixed, linked, followed = (signature(json.loads(given)) for _ in range(4))
        skewed.skew()
        fixed.set(immutable=True)
        linked.link_error(jobs.log_error.s())
        followed.link(jobs.note.s())

        assert [each.options for each in skewed.tasks] == [{"countdown": 1}, {"countdown": 2}]
        assert [each.immutable for each in fixed.tasks] == [True, True]
        assert [each.linked("link_error") for each in linked.tasks] == [[jobs.log_error.s()]] * 2
        assert followed.tasks[0].linked("link") == [jobs.note.si()]

    def test_its_tasks_are_changed_in_place(self) -> None:
        both = signature(dict(group(add.s(1, 1))))
        copied = both.clone()
        both.tasks.append(add.s(2, 2))
        both.tasks[0].args = (3, 3)

        assert ran(both()).get() == [6, 4]
        assert len(copied) == 1

    def test_groups_in_groups_are_one(self) -> None:
        assert values(
            group(group(add.s(1, 1), add.s(2, 2)), add.s(3, 3))(),
            group(group(add.s(1, 1)))(),
        ) == [[2, 4, 6], [2]]

    def test_an_empty_one_has_no_results(self) -> None:
        assert group([])().get() == []
        assert not Flow.objects.exists()

    def test_one_that_failed_fails_the_group(self) -> None:
        result = ran(group(add.s(1, 1), jobs.fail.s("no"))())

        assert (result.successful(), result.failed(), result.completed_count()) == (False, True, 1)
        with pytest.raises(ValueError, match="no"):
            result.get()
        assert repr(result.get(propagate=False)) == "[2, ValueError('no')]"
        told: list[Any] = []
        result.get(propagate=False, callback=lambda id, value: told.append(id))
        assert told == result.as_list()

    def test_a_link_follows_the_first_task(self) -> None:
        both = group(add.s(1, 1), add.s(2, 2))
        both.link(jobs.note.s("first"))
        ran(both())

        assert SEEN == [("first",)]
        with pytest.raises(TypeError, match="chord"):
            both.apply_async(link=jobs.note.s())

    def test_it_is_found_again_by_its_id(self) -> None:
        result = group(
            add.s(1, 1), chain(add.s(2, 2), add.s(1)), add.signature((3, 3), task_id="x")
        )()
        result.save()
        run_all()

        found = GroupResult.restore(result.id)
        assert found == result and found.get() == [2, 5, 6]
        assert found.as_list()[2] == "x"
        assert jobs.app.GroupResult.__name__ == "GroupResult"
        assert GroupResult.restore("unknown") is None and GroupResult.restore("7.1") is None
        for unknown in (f"{'9' * 4301}.1", f"{'9' * 30}.1", "7.\x00", "7.\ud800"):
            assert GroupResult.restore(unknown) is None

    def test_it_is_found_again_when_the_key_of_a_task_id_is_no_longer_remembered(self) -> None:
        result = group(add.signature((1, 1), task_id="one"), add.s(2, 2))()
        run_all()
        Dedupe.objects.all().delete()

        found = GroupResult.restore(result.id)

        assert found is not None and found.get() == [2, 4]

    def test_a_task_knows_its_group(self) -> None:
        result = ran(group(jobs.note_group.s(1), jobs.note_group.s(2))())

        assert result.get() == [result.id, result.id]
        assert ran(jobs.note_group.delay(1)).get() is None

    def test_it_is_revoked_as_a_whole(self) -> None:
        result = group(add.s(1, 1), add.s(2, 2))()
        result.revoke()
        result.forget()

        assert {each.state for each in result} == {states.REVOKED}

    def test_it_travels_as_a_tuple(self) -> None:
        result = (add.s(1, 1) | group(add.s(1), add.s(2)))()
        found = result_from_tuple(json.loads(json.dumps(result.as_tuple())))

        assert found == result and isinstance(found, jobs.app.GroupResult)
        assert (found.id, found.parent) == (result.id, result.parent)
        assert result_from_tuple(result[0].as_tuple()) == result[0]
        assert result[0].as_list() == [result[0].id]
        assert result_from_tuple(result) is result

    def test_one_that_is_empty_travels_as_a_tuple(self) -> None:
        empty = jobs.app.GroupResult("a", [])
        after = jobs.app.GroupResult("b", [], parent=empty)
        no_group = jobs.app.ResultSet([])

        assert (result_from_tuple(empty), result_from_tuple(no_group)) == (empty, no_group)
        found = result_from_tuple(json.loads(json.dumps(after.as_tuple())))
        assert (found.id, found.parent.id) == ("b", "a")
        assert (bool(empty), bool(no_group)) == (True, False)

    def test_results_are_put_together(self) -> None:
        results = ResultSet([add.delay(1, 1)])
        results.add(add.delay(2, 2))
        results.add(results[0])

        assert ran(results).get() == [2, 4]
        results.update([*results, add.delay(3, 3)])
        results.remove(results[0].id)
        results.discard("unknown")
        assert ran(results).get() == [4, 6]
        with pytest.raises(KeyError):
            results.remove("unknown")
        results.clear()
        assert len(results) == 0
        with pytest.raises(exceptions.Unsupported, match="chord"):
            results.then(print)


class TestChords:
    def test_the_body_gets_the_list_of_results(self) -> None:
        result = ran(chord(add.s(number, number) for number in range(10))(tsum.s()))

        assert result.get() == 90
        assert result.parent.get() == [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]
        assert values(
            chord([add.s(1, 1)], tsum.s())(),
            (group(add.s(each, each) for each in range(10)) | tsum.s())(),
        ) == [2, 90]

    def test_its_parts_are_changed_in_place(self) -> None:
        made = signature(dict(chord([add.s(1, 1)], tsum.s())))
        made.tasks.append(add.s(2, 2))
        made.body.set(queue="sums")
        result = made()

        assert Message.objects.order_by("id").last().channel == "sums"
        assert ran(result).get() == 6
        made.header, made.body = [add.s(1, 1)], jobs.patient_sum.s()
        assert made == chord([add.s(1, 1)], jobs.patient_sum.s())
        made.tasks = [add.s(2, 2)]
        assert made == chord([add.s(2, 2)], jobs.patient_sum.s())

    def test_an_immutable_body_waits_all_the_same(self) -> None:
        ran(chord((jobs.note.s(number) for number in range(3)), jobs.note.si("done"))())

        assert SEEN[-1] == ("done",) and len(SEEN) == 4

    def test_the_body_of_an_empty_group_waits_for_what_is_before_it_in_a_chain(self) -> None:
        last = chain(add.si(1, 1), chord([], tsum.s()))()
        first, body = Message.objects.order_by("pk")
        assert (first.state, body.state) == ("ready", "held")

        run_all()

        assert last.get() == 0

    def test_the_body_of_an_empty_group_runs_at_once(self) -> None:
        assert values(
            chord([], tsum.s())(),
            (group([]) | tsum.s())(),
        ) == [0, 0]

    @pytest.mark.parametrize("body", [jobs.note.s(), jobs.note.si()])
    @pytest.mark.parametrize("header", [
        list,
        lambda: add.chunks([], 10),
        lambda: group(add.chunks([], 10), add.chunks([], 10)),
    ])  # fmt: skip
    def test_the_body_of_an_empty_group_fails_with_what_is_before_it(
        self, header: Any, body: Any
    ) -> None:
        result = ran(chain(jobs.fail.s("no"), chord(header(), body))())

        assert SEEN == []
        assert repr(AsyncResult(result.id).result) == "ValueError('no')"

    def test_the_body_of_an_empty_group_is_revoked_with_what_is_before_it(self) -> None:
        result = chain(add.signature((1, 1), countdown=60), chord([], jobs.note.s()))()
        AsyncResult(Message.objects.order_by("pk").first().pk).revoke()
        run_all()

        assert SEEN == [] and AsyncResult(result.id).state == states.REVOKED

    def test_a_chain_that_fails_before_its_empty_end_fails_the_body(self) -> None:
        header = [chain(jobs.fail.si("no"), add.chunks([], 10)), add.si(1, 1)]
        result = ran(chord(header, jobs.note.s())())

        assert SEEN == []
        assert "ValueError('no')" in repr(AsyncResult(result.id).result)

    def test_a_member_that_fails_fails_the_body(self) -> None:
        header = [add.s(4, 4), jobs.fail.s("something"), add.s(8, 8)]
        result = ran(chord(header)(tsum.s()))
        culprit = result.parent[1].id

        assert result.state == states.FAILURE
        with pytest.raises(ValueError, match="something"):
            result.get(timeout=1)
        with pytest.raises(exceptions.ChordError) as raised:
            result.get(timeout=1, follow_parents=False)
        assert str(raised.value) == f"Dependency {culprit} raised ValueError('something')"
        assert result.parent.completed_count() == 2

    @pytest.mark.parametrize("body", [
        lambda: tsum.s().on_error(jobs.log_error.s()),
        lambda: tsum.si([1]).on_error(jobs.log_error.s()),
        lambda: chain(tsum.s(), add.s(1)).on_error(jobs.log_error.s()),
    ])  # fmt: skip
    def test_then_what_is_linked_to_the_body_s_errors_is_called(self, body: Any) -> None:
        ran((group(add.s(1, 1), jobs.fail.s("no")) | body())())

        [(task, _, error, has_traceback)] = SEEN
        assert task == tsum.name and has_traceback
        assert error.startswith('ChordError("Dependency ') and "ValueError('no')" in error

    def test_the_body_is_not_retried_by_itself(self) -> None:
        result = ran(chord([jobs.fail.s("no")], jobs.patient_sum.s())())

        assert (result.state, result.retries) == (states.FAILURE, 0)

    def test_but_nobody_is_told_of_a_body_that_never_ran(self) -> None:
        ran(chord([jobs.fail.s("no")], jobs.noisy_sum.s())())

        assert SEEN == []

    def test_links_of_a_chord_are_its_body_s(self) -> None:
        made = chord([add.s(1, 1)], tsum.s())
        made.link(jobs.note.s())
        made.link_error(jobs.log_error.s())
        made()
        chord([add.s(2, 2)], tsum.s()).apply_async(link=jobs.note.s())
        chord([jobs.fail.s("no")], tsum.s()).apply_async(link_error=jobs.log_error.s())
        run_all()

        assert {seen[0] for seen in SEEN} == {2, 4, tsum.name} and len(SEEN) == 3

    @pytest.mark.parametrize("body", [tsum.s(), chain(tsum.s(), add.s(0))])
    def test_the_body_comes_back_with_the_replay_of_the_member(self, body: Any) -> None:
        result = ran(chord([add.s(1, 1), chain(jobs.fetch.s(9), add.s(0))], body)())
        assert result.failed()

        Message.objects.filter(task=jobs.fetch.name).update(payload={"args": [0], "kwargs": {}})
        Message.objects.filter(task=jobs.fetch.name).replay()
        run_all()
        assert AsyncResult(result.id).get() == 2

    def test_a_chain_that_fails_in_the_header_fails_the_body(self) -> None:
        header = [chain(jobs.fail.s("no"), add.s(1)), add.s(1, 1)]
        result = ran(chord(header, tsum.s().on_error(jobs.log_error.s()))())

        assert result.failed()
        [(task, args, error, _)] = SEEN
        assert (task, args) == (tsum.name, []) and "ValueError('no')" in error

    def test_its_errback_is_not_called_for_a_failure_before_its_header(self) -> None:
        errback = jobs.log_error.s()
        result = ran(
            chain(jobs.fail.s("no"), group(add.s(1), add.s(2)), tsum.s().on_error(errback))()
        )

        assert repr(result.result) == "ValueError('no')" and SEEN == []

    def test_nor_for_the_failure_of_what_replaced_one_before_its_header(self) -> None:
        first = jobs.replace_by.s(jobs.fail.s("no"))
        last = tsum.s().on_error(jobs.log_error.s())
        result = ran(chain(first, group(add.s(1), add.s(2)), last)())

        assert repr(result.result) == "ValueError('no')" and SEEN == []

    def test_a_header_that_is_a_chain_is_its_tasks_side_by_side(self) -> None:
        result = chord(chain(add.s(1, 1), add.s(2, 2)), tsum.s())()

        assert Message.objects.filter(state="ready").count() == 2
        assert ran(result).get() == 6

    def test_the_parent_of_its_result_is_its_group(self) -> None:
        result = ran(chord([add.s(1, 1), add.s(2, 2)], chain(tsum.s(), add.s(1)))())

        assert isinstance(result.parent, GroupResult) and result.parent.get() == [2, 4]

    def test_a_revoked_member_fails_the_body(self) -> None:
        result = chord([add.s(1, 1), add.signature((1, 1), countdown=60)], tsum.s())()
        result.parent[1].revoke()
        run_all()

        with pytest.raises(exceptions.TaskRevokedError, match="revoked"):
            result.get()
        with pytest.raises(exceptions.ChordError, match=r"raised TaskRevokedError\('revoked'\)"):
            AsyncResult(result.id).get()

    def test_options_are_those_of_the_body_and_its_delay_that_of_the_header(self) -> None:
        chord([add.s(1, 1)], tsum.s()).apply_async(countdown=60, queue="sums")

        header, body = Message.objects.order_by("id")
        assert header.run_at - header.created_at == timedelta(seconds=60)
        assert body.run_at - body.created_at < timedelta(seconds=60)
        assert {header.channel, body.channel} == {"sums"}

    def test_a_chord_needs_a_body(self) -> None:
        with pytest.raises(InvalidTask, match="needs a body"):
            chord([add.s(1, 1)])()

    def test_a_thousand_members_are_stored_together(self) -> None:
        with CaptureQueriesContext(connection) as queries:
            result = chord([add.s(number, 1) for number in range(1000)], tsum.s())()

        assert len(queries) < 20
        assert len(result.parent) == 1000


class TestNested:
    def test_a_group_in_a_chain_is_a_chord(self) -> None:
        made = add.s(1, 1) | group(add.s(1), add.s(2)) | tsum.s() | add.s(100)

        assert values(
            made(),
            (add.s(1, 1) | group(add.s(1)) | add.s(3))(),
            (add.s(1, 1) | group() | add.s(3))(),
        ) == [107, 6, 5]

    def test_a_chain_that_ends_in_a_group_has_its_results(self) -> None:
        result = ran((add.s(1, 1) | group(add.s(1), add.s(2)))())

        assert result.get() == [3, 4] and result.parent.get() == 2
        assert result[0].parent is None  # as in Celery

    def test_named_arguments_are_those_of_the_first_task(self) -> None:
        made = jobs.note.s() | group(jobs.note.si("contacts"), jobs.note.si("welcome"))
        ran(made.delay(username="artv", first="Art"))

        assert SEEN[0] == ({"username": "artv", "first": "Art"},)
        assert sorted(SEEN[1:]) == [("contacts",), ("welcome",)]

    @pytest.mark.parametrize(("make", "value"), [
        (lambda: chord([chain(add.s(1, 1), add.s(1)), add.s(1, 1)], tsum.s()), 5),
        (lambda: chord([chord([add.s(1, 1)], tsum.s()), add.s(2, 2)], tsum.s()), 6),
        (lambda: chord([add.s(1, 1)], chain(tsum.s(), add.s(1), add.s(2))), 5),
        (lambda: group(add.s(1, 1), add.s(2, 2)) | group(tsum.s(), tsum.s()) | tsum.s(), 12),
        (lambda: chain(chord([add.s(1, 1)], tsum.s()), chord([add.s(1)], tsum.s()), add.s(1)), 4),
        (lambda: chord(group(group(add.s(1, 1)), add.s(2, 2)), tsum.s()), 6),
        (lambda: chain(add.s(1, 1), chord([add.s(1), add.s(2)], tsum.s()) | add.s(1)), 8),
        (lambda: chord([add.s(1, 1)], tsum.s()) | add.s(1) | mul.s(10), 30),
        (lambda: chord([jobs.add_async.s(1, 1)], tsum.s()), 2),
    ])  # fmt: skip
    def test_all_may_be_put_into_all(self, make: Any, value: Any) -> None:
        assert values(
            make()(),
            signature(dict(make()))(),
        ) == [value, value]
        assert make().apply().get() == value

    def test_a_group_of_one_group_keeps_all_tasks_in_a_chain(self) -> None:
        inner = group(add.s(1), add.s(2))

        assert values(
            chain(add.s(1, 1), group([inner]), tsum.s())(),
            chain(add.s(1, 1), group([group([group([add.s(1)])])]), add.s(1))(),
            chain(add.s(1, 1), group([chain()]), group([group()]), add.s(1))(),
        ) == [7, 4, 3]

    def test_an_immutable_chord_in_a_chain_leaves_the_result_before_it(self) -> None:
        assert values(
            chain(add.s(1, 1), chord([add.s(1, 1)], tsum.s()).set(immutable=True))(),
            chain(add.s(1, 1), chord([add.si(1, 1), add.s(1, 1)], tsum.s()).set(immutable=True))(),
        ) == [2, 4]

    @pytest.mark.parametrize("member", [
        lambda: add.s(1, 1),
        lambda: group(add.s(1, 1)),
        lambda: chain(add.s(1, 1), add.s(0)),
        lambda: chord([add.s(1, 1)], tsum.s()),
    ])  # fmt: skip
    def test_a_chord_that_is_made_immutable_leaves_the_result_before_it(self, member: Any) -> None:
        fixed = chord([member()], tsum.s(), immutable=True)

        assert values(
            chain(add.s(1, 1), fixed)(),
            chain(add.s(1, 1), signature(dict(fixed)))(),
        ) == [2, 2]
        assert fixed == chord([member()], tsum.s(), immutable=True)

    def test_an_immutable_chain_in_a_group_leaves_the_result_before_it(self) -> None:
        fixed = chain(add.s(1, 1), add.s(1), immutable=True)

        assert values(chain(add.s(1, 1), group(fixed, add.s(1)), tsum.s())()) == [6]

    @pytest.mark.parametrize("make", [
        lambda: chain(add.s(1, 1), group(add.s(1), group(add.s(2), group(add.s(3), add.s(4))))),
        lambda: chain(add.s(1, 1), chord([chord([add.s(1)], tsum.s()), add.s(2)], tsum.s())),
        lambda: chord([add.s(1, 1)], group(group(tsum.s(), tsum.s()), tsum.s())),
        lambda: chain(chord([add.s(1, 1)], chord([tsum.s()], group(tsum.s(), tsum.s())))),
        lambda: chain(add.s(1, 1), group(add.s(1), chord([add.s(1)], group(tsum.s(), tsum.s())))),
    ])  # fmt: skip
    def test_a_call_with_an_errback_leaves_the_canvas_unchanged(self, make: Any) -> None:
        called = make()
        called.apply_async(link_error=jobs.log_error.s())
        called.apply_async(link_error=jobs.log_id.s())

        assert called == make()

    def test_placed_groups_are_told_apart_even_if_nobody_keeps_them(self) -> None:
        into = Placing(Draft("default"))

        assert len({id(into.add_group([], None, taken=False)) for _ in range(9)}) == 9

    def test_a_failure_before_a_group_is_that_of_what_follows(self) -> None:
        result = ran((jobs.fail.s("no") | group(add.s(1), add.s(2)) | tsum.s())())

        assert result.state == states.FAILURE
        with pytest.raises(ValueError, match="no"):
            AsyncResult(result.id).get(timeout=5)


class TestMaps:
    def test_a_map_is_one_message(self) -> None:
        result = ran(tsum.map([list(range(10)), list(range(100))]).delay())

        assert result.get() == [45, 4950]
        assert History.objects.get().task == "celery.map"
        assert repr(tsum.map([1])) == f"[{tsum.name}(x) for x in [1]]"

    def test_a_starmap_spreads_arguments(self) -> None:
        made = add.starmap(zip(range(10), range(10), strict=True))

        assert values(
            made.apply_async(),
            (made | tsum.s())(),
        ) == [[0, 2, 4, 6, 8, 10, 12, 14, 16, 18], 90]
        assert repr(add.starmap([(1, 2)])) == f"[{add.name}(*x) for x in [(1, 2)]]"

    def test_it_runs_in_the_channel_of_its_task(self) -> None:
        message = Message.objects.get(pk=jobs.routed.map([1]).delay().id)

        assert message.channel == "mail"

    @pytest.mark.parametrize("make", [
        lambda: jobs.double.map([1, 2]),
        lambda: jobs.double.starmap([(1,), (2,)]),
        lambda: chain(jobs.double.chunks([(1,), (2,)], 2).group()),
    ])  # fmt: skip
    def test_coroutines_of_an_async_task_are_run(self, make: Any) -> None:
        assert ran(make().delay()).get() == [2, 4]
        assert make().apply().get() == [2, 4]

    def test_chunks_are_a_group_of_starmaps(self) -> None:
        made = add.chunks(zip(range(100), range(100), strict=True), 10)

        assert ran(made()).get()[1] == [20, 22, 24, 26, 28, 30, 32, 34, 36, 38]
        assert len(made.group()) == 10
        assert made.apply().get()[0][1] == 2
        with pytest.raises(InvalidTask, match="1 or more"):
            add.chunks([], 0)

    @pytest.mark.parametrize("make", [
        lambda: jobs.count_lazily.map([1]).set(ignore_result=True),
        lambda: jobs.count_lazily.starmap([(1,)]).set(ignore_result=True),
    ])  # fmt: skip
    def test_a_generator_in_a_map_is_an_error(self, make: Any) -> None:
        result = ran(make().delay())

        assert "count_lazily returned a generator" in str(result.result)

    def test_a_call_of_chunks_takes_options(self) -> None:
        [first] = add.chunks([(1, 2)], 1)(queue="sums", countdown=60)
        message = Message.objects.get(pk=first.id)

        assert (message.channel, message.state) == ("sums", "scheduled")

    def test_what_a_task_hides_is_not_shown_by_a_map(self) -> None:
        for make in (jobs.charge.map, jobs.charge.starmap, lambda it: jobs.charge.chunks(it, 1)()):
            with pytest.raises(exceptions.Unsupported, match="hides"):
                make([("account", "card")])

    def test_skewed_ones_begin_one_after_another(self) -> None:
        add.chunks(zip(range(40), range(40), strict=True), 10).group().skew(start=1, stop=3)()

        delays = [each.run_at - each.created_at for each in Message.objects.order_by("id")]
        assert [each.total_seconds() for each in delays] == [1, 2, 3, 3]


class TestReplacing:
    @pytest.mark.parametrize(("make", "value"), [
        (lambda: add.s(2, 2), 4),
        (lambda: chain(add.s(2, 2), add.s(1)), 5),
        (lambda: group(add.s(2, 2), add.s(1, 1)), [4, 2]),
        (lambda: chain(add.s(2, 2), group(add.s(1), add.s(2))), [5, 6]),
        (lambda: chord([add.s(2, 2)], tsum.s()), 4),
        (lambda: jobs.replace_by.s(add.s(3, 3)), 6),
        (lambda: chord([add.s(2, 2)], chain(tsum.s(), group(add.s(1), add.s(2)))), [5, 6]),
        (lambda: chord([add.s(1, 1)], chord([tsum.s()], group(tsum.s(), tsum.s()))), [2, 2]),
    ])  # fmt: skip
    def test_the_result_is_that_of_what_takes_its_place(self, make: Any, value: Any) -> None:
        result = jobs.replace_by.delay(make())
        followed = chain(jobs.replace_by.s(make()), jobs.note.s())()
        run_all()

        assert result.get() == value and [(value,)] == SEEN
        assert followed.parent.get() == value
        assert jobs.replace_by.apply((make(),)).get() == value

    def test_it_is_pending_until_that_has_ended(self) -> None:
        result = jobs.replace_by.delay(add.signature((2, 2), countdown=60))
        run_all()

        assert (result.state, result.ready()) == (states.PENDING, False)
        with pytest.raises(WaitTimeout):
            result.get(timeout=0)

    def test_its_failure_is_that_of_the_task(self) -> None:
        result = ran(chord([jobs.replace_by.s(jobs.fail.s("no")), add.s(1, 1)], tsum.s())())

        with pytest.raises(exceptions.ChordError, match=r"ValueError\('no'\)"):
            AsyncResult(result.id).get()
        ran(chain(jobs.replace_by.s(jobs.fail.s("no")).on_error(jobs.log_error.s()))())
        assert SEEN[0][2] == "ValueError('no')"

    def test_nothing_of_a_run_that_is_tried_again_is_left(self) -> None:
        result = ran(jobs.replace_the_second_time.delay(add.s(1, 1)))

        assert result.get() == 2
        assert History.objects.filter(task=add.name).count() == 1

    def test_nobody_is_told_of_the_end_of_what_was_replaced(self) -> None:
        ran(jobs.noisy_replace.delay(jobs.noisy_sum.s([1, 2])))

        assert [seen[0] for seen in SEEN] == [
            "before_start", "before_start", "on_success", "after_return",
        ]  # fmt: skip
        assert SEEN[2][:2] == ("on_success", 3)

    def test_it_is_for_runs_in_workers(self) -> None:
        with pytest.raises(exceptions.Unsupported, match="only a run in a worker"):
            jobs.replace_by(add.s(1, 1))
        with pytest.raises(exceptions.Unsupported, match="replace"):
            add.add_to_chord(add.s(1, 1))


class TestClasses:
    def test_an_apply_async_of_its_own_is_called_by_all_that_stores_the_task_alone(self) -> None:
        jobs.tenant_of.delay()
        jobs.tenant_of.s().delay()
        jobs.tenant_of.apply_async(link=jobs.note.s())
        jobs.app.send_task(jobs.tenant_of.name)
        jobs.fail.apply_async(("no",), link_error=jobs.note_id_tenanted.s())
        run_all()

        assert SEEN.count(jobs.tenant_of.name) == 4
        assert SEEN.count(jobs.note_id_tenanted.name) == 1
        assert (("acme", "acme", "blue"),) in SEEN

    @pytest.mark.parametrize("call", [
        lambda: chain(add.s(1, 1), jobs.tenant_of.si())(),
        lambda: group(jobs.tenant_of.s())(),
        lambda: chord([add.s(1, 1)], jobs.tenant_of.si())(),
        lambda: add.apply_async((1, 1), link=jobs.tenant_of.si()),
    ])  # fmt: skip
    def test_where_messages_are_stored_together_it_is_asked_for_each(self, call: Any) -> None:
        call()
        run_all()

        assert SEEN.count(jobs.tenant_of.name) == 1
        [message] = History.objects.filter(task=jobs.tenant_of.name)
        assert message.metadata["tenant"] == "acme"

    def test_the_id_that_it_sees_is_that_of_the_message(self) -> None:
        result = chain(add.s(1, 1), jobs.registered.si())()

        assert [result.id] == SEEN
        assert ran(result).get() == result.id

    def test_one_that_stores_nothing_can_not_be_part_of_a_canvas(self) -> None:
        with pytest.raises(exceptions.Unsupported, match=r"stores no message"):
            chain(add.s(1, 1), jobs.never_stored.si())()
        assert not Message.objects.exists()
        assert not Message.objects.exists()

    def test_one_that_stores_two_messages_can_not_be_part_of_a_canvas(self) -> None:
        with pytest.raises(exceptions.Unsupported, match=r"stores several messages"):
            chain(add.s(1, 1), jobs.stored_twice.si("once"))()
        assert not Message.objects.exists()
        jobs.stored_twice.delay("once")
        assert Message.objects.count() == 2


class TestEager:
    def test_all_runs_here_where_the_settings_say_so(self, settings: Any) -> None:
        settings.CELERY_TASK_ALWAYS_EAGER = True

        assert chain(add.s(1, 1), add.s(2)).delay().get() == 4
        assert group(add.s(1, 1), add.s(2, 2))().get() == [2, 4]
        assert chord([add.s(1, 1)], tsum.s())().get() == 2
        assert add.chunks([(1, 2), (3, 4)], 1)().get() == [[3], [7]]
        assert tsum.map([[1, 2]]).delay().get() == [3]
        add.apply_async((1, 1), link=jobs.note.s())
        jobs.fail.apply_async(("no",), link_error=jobs.log_error.s())
        assert SEEN == [(2,), (FAIL, ("no",), "ValueError('no')", True)]
        assert not Message.objects.exists()


class TestSignals:
    def test_the_headers_of_each_message_are_told_and_changed(self) -> None:
        def stamp(sender: Any = None, headers: Any = None, **others: Any) -> None:
            headers["stamp"] = sender

        def note(headers: Any = None, **others: Any) -> None:
            SEEN.append((headers["task"], headers["id"]))

        signals.before_task_publish.connect(stamp)
        signals.after_task_publish.connect(note)
        try:
            result = chord([jobs.dump_context.s(1), jobs.dump_context.s(2)], jobs.note.s("end"))()
        finally:
            signals.before_task_publish.disconnect(stamp)
            signals.after_task_publish.disconnect(note)
        run_all()

        assert [id for _, id in SEEN[:3]] == [*result.parent.as_list(), result.id]
        assert {each["headers"]["stamp"] for each in SEEN[3][0]} == {jobs.dump_context.name}


def test_the_admin_draws_what_a_graph_would_show() -> None:
    with pytest.raises(exceptions.Unsupported, match="admin"):
        add.delay(1, 1).graph  # noqa: B018


def test_a_schedule_is_of_one_task() -> None:
    with pytest.raises(exceptions.Unsupported, match="schedule a task that calls it"):
        jobs.app.add_periodic_task(10, chain(add.s(1, 1), add.s(1)))


def test_a_signature_is_called_here() -> None:
    assert Signature(add, (1,))(2) == 3
