"""Traces: from where something is stored to all that is done about it, by OpenTelemetry's SDK."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import call_command
from django.db import transaction
from opentelemetry import baggage, propagate
from opentelemetry import context as contexts
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from pgqueue import (
    BufferedPublisher,
    batch,
    flow,
    publish,
    publish_later,
    publish_many,
    read,
    receive,
    send,
    send_many,
    signals,
    telemetry,
    webhooks,
)
from pgqueue.calls import tracing
from pgqueue.engine import dispatch as engine
from pgqueue.engine import flows
from pgqueue.engine.sequence import catch_up
from pgqueue.events import subscriptions
from pgqueue.events.consumers import Consumer, consumer
from pgqueue.events.consuming import GroupReader
from pgqueue.logs import RunFilter
from pgqueue.models import Event, History, Message, Schedule
from pgqueue.tasks import run_middleware, scheduling
from pgqueue.webhooks import targets
from tests.telemetry import jobs
from tests.telemetry.reading import Traces, context_of, continues, linked, trace_of, traceparent_of
from tests.webhooks.receiver import receiving

pytestmark = pytest.mark.django_db(transaction=True)

Connection = psycopg.Connection[Any]


def drain(*options: str) -> None:
    """Run all messages; in one thread, unless options say otherwise: their spans are in order."""
    call_command("runworker", "--drain", *(options or ("--threads", "1")), verbosity=0)


def dispatch(connection: Connection) -> None:
    """Make messages of all events that are there."""
    catch_up(connection)
    is_last = False
    while not is_last:
        with connection.transaction():
            is_last = engine.step(connection).is_last


def sent(member: Any) -> Any:
    """Return the link to what stored a message: its attributes, and the id of its span."""
    stored = History.objects.get(pk=member.id).metadata["traceparent"]
    return {"messaging.message.id": member.id}, int(stored.split("-")[2], 16)


def result() -> Any:
    return History.objects.latest("id").result


class TestAnEnqueue:
    def test_has_a_span_of_a_producer_whose_context_the_message_carries(
        self, traces: Traces
    ) -> None:
        with traces.tracer.start_as_current_span("request") as request:
            enqueued = jobs.tell.enqueue()

        span = traces.one("send mail")
        assert span.kind is SpanKind.PRODUCER
        assert span.parent == request.get_span_context()
        assert dict(span.attributes or {}) == {
            "messaging.system": "pgqueue",
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": "mail",
            "messaging.message.id": enqueued.id,
            "messaging.pgqueue.task": jobs.tell.name,
        }
        assert Message.objects.get().metadata == {"traceparent": traceparent_of(span)}

    def test_of_many_has_one_span(self, traces: Traces) -> None:
        jobs.tell.enqueue_many([()] * 3)

        [span] = traces.produced
        assert (span.attributes or {})["messaging.batch.message_count"] == 3
        carried = Message.objects.values_list("metadata", flat=True)
        assert [each["traceparent"] for each in carried] == [traceparent_of(span)] * 3

    def test_on_commit_belongs_to_where_it_was_called(self, traces: Traces) -> None:
        with traces.tracer.start_as_current_span("request") as request, transaction.atomic():
            jobs.tell.using(enqueue_on_commit=True).enqueue()

        drain()

        assert traces.one("send mail").parent == request.get_span_context()
        assert continues(traces.one("process mail"), traces.one("send mail"))

    def test_in_a_batch_has_its_own(self, traces: Traces) -> None:
        with batch() as work:
            work.enqueue(jobs.tell)
            work.enqueue(jobs.tell_async)

        assert {
            each["traceparent"] for each in Message.objects.values_list("metadata", flat=True)
        } == {traceparent_of(each) for each in traces.produced}

    def test_keeps_metadata_and_a_trace_that_the_user_gave(self, traces: Traces) -> None:
        theirs = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

        jobs.tell.using(metadata={"team": "a"}).enqueue()
        jobs.tell.using(metadata={"traceparent": theirs}).enqueue()
        drain()

        with_team, with_trace = History.objects.order_by("id").values_list("metadata", flat=True)
        assert with_team["team"] == "a"
        assert with_trace == {"traceparent": theirs}
        assert f"{trace_of(traces.consumed[-1]):032x}" == theirs[3:35]

    def test_that_fails_has_the_error(self, traces: Traces) -> None:
        with pytest.raises(TypeError):
            jobs.tell.enqueue("too much")  # type: ignore[call-arg]

        span = traces.one("send mail")
        assert span.status.status_code is StatusCode.ERROR
        assert (span.attributes or {})["error.type"] == "pgqueue.exceptions.InvalidArguments"

    def test_of_a_schedule_begins_a_trace(self, traces: Traces) -> None:
        Schedule.objects.create(name="each hour", task=jobs.tell.name, cron="0 * * * *")

        scheduling.run("each hour")
        drain()

        assert continues(traces.one("process mail"), traces.one("send mail"))
        assert traces.one("send mail").parent is None
        assert History.objects.get().metadata["schedule"] == "each hour"

    def test_of_raw_messages_is_traced_alike(self, traces: Traces) -> None:
        send("letters", {"n": 1})
        send_many("letters", [1, 2])

        one, many = traces.named("send letters")
        assert "messaging.pgqueue.task" not in (one.attributes or {})
        assert (many.attributes or {})["messaging.batch.message_count"] == 2
        carried = Message.objects.order_by("id").values_list("metadata", flat=True)
        assert [each["traceparent"] for each in carried] == [
            traceparent_of(each) for each in (one, many, many)
        ]


class TestARun:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_has_a_span_of_a_consumer_that_continues_the_enqueue(
        self, traces: Traces, atomic: bool
    ) -> None:
        enqueued = jobs.tell.using(atomic=atomic).enqueue()

        drain()

        span = traces.one("process mail")
        assert span.kind is SpanKind.CONSUMER
        assert continues(span, traces.one("send mail"))
        assert dict(span.attributes or {}) == {
            "messaging.system": "pgqueue",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": "mail",
            "messaging.message.id": enqueued.id,
            "messaging.pgqueue.task": jobs.tell.name,
            "messaging.pgqueue.message.attempt": 1,
            "messaging.pgqueue.message.key": "ada",
        }
        assert span.status.status_code is StatusCode.UNSET
        assert result()[0] == traceparent_of(span)[36:52]

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_of_a_coroutine_is_current_wherever_it_goes_on(
        self, traces: Traces, options: list[str]
    ) -> None:
        for _ in range(3):
            with traces.tracer.start_as_current_span("request"):
                jobs.tell_async.enqueue()

        drain(*options)

        runs = {(span.attributes or {})["messaging.message.id"]: span for span in traces.consumed}
        assert len({trace_of(each) for each in runs.values()}) == 3
        for row in History.objects.all():
            assert row.result == [traceparent_of(runs[str(row.pk)])[36:52]] * 3

    def test_has_a_span_for_each_attempt_with_its_error(self, traces: Traces) -> None:
        jobs.succeed_at_last.enqueue()

        drain()

        runs = traces.consumed
        assert all(continues(each, traces.one("send mail")) for each in runs)
        attempts = [(each.attributes or {})["messaging.pgqueue.message.attempt"] for each in runs]
        assert attempts == [1, 2, 3]
        assert [each.status.status_code.name for each in runs] == ["ERROR", "ERROR", "UNSET"]
        first = runs[0]
        assert first.status.description == "ValueError: attempt 1"
        assert (first.attributes or {})["error.type"] == "ValueError"
        [event] = first.events
        assert event.name == "exception"
        assert "succeed_at_last" in str((event.attributes or {})["exception.stacktrace"])

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_that_fails_is_logged_with_its_trace(
        self, traces: Traces, caplog: pytest.LogCaptureFixture, options: list[str]
    ) -> None:
        caplog.handler.addFilter(RunFilter())
        with traces.tracer.start_as_current_span("request") as request:
            jobs.fail_async.enqueue()

        drain(*options)

        [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
        trace = request.get_span_context().trace_id
        assert vars(record)["trace_id"] == f"{trace:032x}"

    def test_whose_error_quotes_what_is_redacted_does_not_show_it(self, traces: Traces) -> None:
        jobs.log_in.enqueue(password="correct horse")

        drain()

        [event] = traces.one("process mail").events
        told = f"{traces.one('process mail').status.description} {event.attributes}"
        assert "correct horse" not in told
        assert "ValueError: no [redacted]" in told

    @pytest.mark.parametrize("how", ["defer", "discard", "cancel"])
    def test_that_ends_as_the_task_wants_has_no_error(self, traces: Traces, how: str) -> None:
        jobs.end_as.enqueue(how)

        drain()

        assert {each.status.status_code for each in traces.consumed} == {StatusCode.UNSET}
        assert not any(each.events for each in traces.consumed)

    def test_is_where_what_it_stores_belongs_to(self, traces: Traces) -> None:
        jobs.pass_on.enqueue()

        drain()

        by_task = {
            (each.attributes or {}).get("messaging.pgqueue.task"): each for each in traces.consumed
        }
        outer, inner = by_task[jobs.pass_on.name], by_task[jobs.tell.name]
        stored = [
            each
            for each in traces.produced
            if each.parent and each.parent.span_id == outer.context.span_id
        ]
        assert [each.name for each in stored] == ["send mail", "send letters", "send parcel.packed"]
        assert continues(inner, stored[0])
        assert len({trace_of(each) for each in traces.all}) == 1
        [event] = read()
        assert event.metadata == {"traceparent": traceparent_of(stored[2])}

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_of_a_coroutine_is_where_what_it_stores_belongs_to(
        self, traces: Traces, options: list[str]
    ) -> None:
        jobs.pass_on_async.enqueue()

        drain(*options)

        assert [each.name for each in traces.all] == ["send mail", "process mail"] * 2
        assert len({trace_of(each) for each in traces.all}) == 1

    def test_knows_the_baggage_of_its_producer(self, traces: Traces) -> None:
        token = contexts.attach(baggage.set_baggage("tenant", "acme"))
        jobs.tell.enqueue()
        contexts.detach(token)

        drain()

        assert result()[1] == "acme"

    @pytest.mark.parametrize("fails", [False, True])
    def test_leaves_no_span_to_the_next_one_in_its_thread(
        self, traces: Traces, fails: bool
    ) -> None:
        def look(**_: Any) -> None:
            seen.append(jobs.current())

        seen: list[str] = []
        for _ in range(2):
            jobs.log_in.enqueue("no") if fails else jobs.tell.enqueue()

        signals.task_started.connect(look)
        try:
            drain("--threads", "1")
        finally:
            signals.task_started.disconnect(look)

        assert seen == ["0" * 16] * 2

    def test_whose_metadata_are_odd_begins_a_trace(self, traces: Traces) -> None:
        for odd in (7, None, "", "nonsense", ["00"]):
            jobs.tell.using(metadata={"traceparent": odd}).enqueue()

        drain()

        assert [each.parent for each in traces.consumed] == [None] * 5
        assert History.objects.count() == 5


class TestAFlow:
    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_links_each_run_to_what_stored_the_messages_it_waited_for(
        self, traces: Traces, options: list[str]
    ) -> None:
        with flow("packing") as f:
            parts = [f.enqueue(jobs.tell), f.enqueue(jobs.tell_async)]
            last = f.enqueue(jobs.take, parts[0], after=parts[1])
            end = f.enqueue(jobs.tell_async, after=last)

        drain(*options)

        runs = {(each.attributes or {})["messaging.message.id"]: each for each in traces.consumed}
        # The first link of each is to what stored the message itself.
        waited = {
            id: [(dict(link.attributes or {}), link.context.span_id) for link in run.links[1:]]
            for id, run in runs.items()
        }
        assert waited == {
            parts[0].id: [],
            parts[1].id: [],
            last.id: [sent(part) for part in parts],
            end.id: [sent(last)],
        }
        flows_of = {(run.attributes or {})["messaging.pgqueue.flow.id"] for run in runs.values()}
        assert flows_of == {f.id}

    def test_links_to_128_at_most(self, traces: Traces) -> None:
        with flow("many") as f:
            parts = [f.enqueue(jobs.tell) for _ in range(130)]
            f.enqueue(jobs.take, after=parts)

        drain()

        [last] = [each for each in traces.consumed if len(each.links) > 1]
        assert len(last.links) == 128
        told = [(each.attributes or {}).get("messaging.message.id") for each in last.links[1:]]
        assert told == [each.id for each in parts[2:129]]

    def test_asks_the_database_for_nothing_more_where_nothing_is_traced(self) -> None:
        with flow("untraced") as f:
            f.enqueue(jobs.take, after=f.enqueue(jobs.tell))

        with patch.object(flows, "origins", side_effect=AssertionError) as asked:
            drain()

        assert History.objects.filter(outcome="succeeded").count() == 2
        assert asked.call_count == 0


class TestAParent:
    def test_is_named_by_what_is_stored_in_its_run(self) -> None:
        enqueued = jobs.pass_on.enqueue()

        drain()

        [letter] = Message.objects.all()
        assert letter.parent_id == int(enqueued.id)
        assert History.objects.get(task=jobs.tell.name).parent_id == int(enqueued.id)
        assert History.objects.get(pk=enqueued.id).parent_id is None

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_is_named_from_a_coroutine(self, options: list[str]) -> None:
        enqueued = jobs.pass_on_async.enqueue()

        drain(*options)

        assert History.objects.get(task=jobs.tell.name).parent_id == int(enqueued.id)


class TestAnEvent:
    def test_goes_on_in_the_task_of_a_subscription(
        self, traces: Traces, connection: Connection
    ) -> None:
        subscriptions.create("follow", jobs.follow, topics="parcel.*")
        with traces.tracer.start_as_current_span("request"):
            publish("parcel.packed", {"n": 1})

        dispatch(connection)
        drain()

        span = traces.one("process mail")
        assert continues(span, traces.one("send parcel.packed"))
        assert (span.attributes or {})["messaging.destination.subscription.name"] == "follow"
        assert result() == traceparent_of(span)[36:52]

    def test_of_a_list_is_linked_to(self, traces: Traces, connection: Connection) -> None:
        subscriptions.create("collect", jobs.collect, topics="parcel.*", batch=10)
        for n in range(3):
            publish("parcel.packed", {"n": n})

        dispatch(connection)
        drain()

        span = traces.one("process mail")
        assert linked(span) == [context_of(each).span_id for each in traces.produced]
        assert span.parent is None
        assert trace_of(span) not in {trace_of(each) for each in traces.produced}

    def test_that_is_published_with_others_shares_their_span(self, traces: Traces) -> None:
        publish_many([("parcel.packed", 1), ("parcel.packed", 2)])
        publish_many([("parcel.packed", 3), ("parcel.sent", 4)])

        same, mixed = traces.produced
        assert (same.name, mixed.name) == ("send parcel.packed", "send")
        carried = [each.metadata["traceparent"] for each in read()]
        assert carried == [traceparent_of(each) for each in (same, same, mixed, mixed)]

    def test_of_a_buffered_publisher_belongs_to_who_published_it(self, traces: Traces) -> None:
        publisher = BufferedPublisher()
        with traces.tracer.start_as_current_span("request") as request:
            publisher.publish("parcel.packed", {"n": 1})
        publisher.close()

        span = traces.one("create parcel.packed")
        assert span.parent == request.get_span_context()
        [event] = read()
        assert event.metadata == {"traceparent": traceparent_of(span)}

    def test_that_is_published_later_belongs_to_who_said_so(self, traces: Traces) -> None:
        with traces.tracer.start_as_current_span("request") as request:
            publish_later("parcel.packed", {"n": 1}, run_after=0)

        drain()

        [event] = read()
        span = traces.one("send parcel.packed")
        assert event.metadata == {"traceparent": traceparent_of(span)}
        assert trace_of(span) == request.get_span_context().trace_id

    @pytest.mark.parametrize("many", [False, True], ids=["one by one", "as a list"])
    def test_is_where_the_handler_of_a_group_goes_on(self, traces: Traces, many: bool) -> None:
        seen: list[str] = []

        def handle(given: Any) -> None:
            seen.append(jobs.current())
            raise ValueError("no")

        declared: Consumer = consumer(
            "shop", start="beginning", max_attempts=1, batch=10 if many else None
        )(handle)
        with traces.tracer.start_as_current_span("request"):
            publish("parcel.packed", {"n": 1})

        reader = GroupReader(declared)
        while not reader.tick():
            pass
        reader.finish()

        span = traces.one("process parcel.packed")
        assert continues(span, traces.one("send parcel.packed"))
        assert (span.attributes or {})["messaging.consumer.group.name"] == "shop"
        assert span.status.status_code is StatusCode.ERROR
        assert seen == [traceparent_of(span)[36:52]]

    def test_reaches_an_endpoint_as_a_header(
        self, traces: Traces, connection: Connection, settings: Any
    ) -> None:
        options = {"ALLOW_PRIVATE": ["127.0.0.0/8"], "TIMEOUT": 5}
        settings.PGQUEUE = {**settings.PGQUEUE, "WEBHOOKS": options}
        theirs = TraceContextTextMapPropagator().extract(
            {
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "tracestate": "vendor=own",
            }
        )
        token = contexts.attach(baggage.set_baggage("tenant", "acme", theirs))
        try:
            with receiving() as receiver:
                webhooks.create("shop", receiver.url, topics="parcel.*")
                publish("parcel.packed", {"n": 1})
                dispatch(connection)
                drain()
                [post] = receiver.posts
        finally:
            contexts.detach(token)
            targets.forget_all()

        span = traces.one("process webhooks")
        assert continues(span, traces.one("send parcel.packed"))
        assert post.headers["traceparent"] == traceparent_of(span)
        assert Event.objects.get().metadata.keys() == {"traceparent", "tracestate", "baggage"}
        assert not {"baggage", "tracestate"} & post.headers.keys()


class TestProcessing:
    def test_a_delivery_continues_its_trace(self, traces: Traces) -> None:
        send("letters", {"n": 1})
        jobs.tell.using(channel="letters").enqueue()

        with receive("letters", limit=2) as deliveries:
            for delivery in deliveries:
                with telemetry.processing(delivery):
                    delivery.complete()

        for made, span in zip(traces.produced, traces.consumed, strict=True):
            assert continues(span, made)
            assert span.name == "process letters"

    def test_several_deliveries_are_linked_to(self, traces: Traces) -> None:
        send("letters", 1)
        send("letters", 2)

        with receive("letters", limit=2) as deliveries, telemetry.processing(*deliveries.take()):
            pass

        [span] = traces.consumed
        assert linked(span) == [context_of(each).span_id for each in traces.produced]
        assert (span.attributes or {})["messaging.batch.message_count"] == 2

    def test_within_another_span_is_its_child_and_linked(self, traces: Traces) -> None:
        publish("parcel.packed", {"n": 1})
        [event] = read()

        with (
            traces.tracer.start_as_current_span("report") as report,
            telemetry.processing(event) as current,
        ):
            current.set_attribute("mine", 1)

        [span] = traces.consumed
        assert span.parent == report.get_span_context()
        assert linked(span) == [context_of(traces.produced[0]).span_id]
        assert (span.attributes or {})["mine"] == 1

    def test_is_nothing_where_nothing_is_traced(self) -> None:
        send("letters", 1)
        [delivery] = receive("letters")

        with telemetry.processing(delivery) as span:
            span.set_attribute("mine", 1)

        assert not span.is_recording()


class TestInstrumenting:
    def test_twice_is_once(self, traces: Traces, providers: dict[str, Any]) -> None:
        telemetry.instrument(**providers)
        jobs.tell.enqueue()

        drain()

        assert [each.name for each in traces.all] == ["send mail", "process mail"]

    def test_is_undone(self, traces: Traces, providers: dict[str, Any]) -> None:
        telemetry.uninstrument()
        telemetry.uninstrument()
        jobs.tell.enqueue()

        drain()

        assert traces.all == []
        assert (tracing.tracer, run_middleware._registered) == (None, [])
        assert History.objects.get().metadata == {}

    def test_without_a_provider_changes_no_message(self) -> None:
        telemetry.instrument()
        try:
            jobs.tell.enqueue()
            drain()
        finally:
            telemetry.uninstrument()

        assert History.objects.get().metadata == {}

    def test_what_is_not_sampled_says_so_to_the_rest_of_its_trace(self) -> None:
        telemetry.instrument(tracer_provider=TracerProvider(sampler=ALWAYS_OFF))
        try:
            jobs.tell.enqueue()
        finally:
            telemetry.uninstrument()

        flags = int(Message.objects.get().metadata["traceparent"].rpartition("-")[2], 16)
        assert not TraceFlags(flags).sampled

    def test_takes_the_propagator_that_is_set(
        self, traces: Traces, connection: Connection, request: pytest.FixtureRequest
    ) -> None:
        request.addfinalizer(partial(propagate.set_global_textmap, propagate.get_global_textmap()))
        propagate.set_global_textmap(Own())
        subscriptions.create("follow", jobs.follow, topics="parcel.*")
        jobs.tell.enqueue()
        publish("parcel.packed")

        dispatch(connection)
        drain()

        assert set(History.objects.get(task=jobs.tell.name).metadata) == {"x-own"}
        # The two may run in either order.
        assert len(traces.consumed) == len(traces.produced) == 2
        for run in traces.consumed:
            assert any(continues(run, made) for made in traces.produced)

    def test_what_fails_there_changes_no_message(
        self, traces: Traces, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: Any, **__: Any) -> Any:
            raise RuntimeError("broken propagator")

        monkeypatch.setattr(propagate, "inject", fail)
        monkeypatch.setattr(propagate, "extract", fail)
        seen: list[Any] = []
        declared = consumer("shop", start="beginning")(seen.append)
        jobs.tell.enqueue()
        publish("parcel.packed")

        drain()
        declared.handle(read())

        assert History.objects.get().outcome == "succeeded"
        assert len(seen) == 1
        assert "broken propagator" in caplog.text
        assert jobs.current() == "0" * 16


TRACE_CONTEXT = TraceContextTextMapPropagator()


class Own(TextMapPropagator):
    """A propagator with a field of its own."""

    fields = {"x-own"}

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        own: dict[str, str] = {}
        TRACE_CONTEXT.inject(own, context)
        carrier["x-own"] = own["traceparent"]

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        return TRACE_CONTEXT.extract({"traceparent": carrier.get("x-own", "")}, context)
