"""Print as JSON what other packages come to. The argument is which of them."""

import json
import sys

import django

django.setup()

import jobs  # noqa: E402
from django.core.management import call_command  # noqa: E402

from pgqueue.models import Message  # noqa: E402


def drain():
    call_command("runworker", "--drain", "--threads", "1", verbosity=0)
    seen, jobs.SEEN[:] = list(jobs.SEEN), []
    return seen


def singleton():
    from celery_singleton import DuplicateTaskError, clear_locks

    first, same, other = (jobs.single.delay(number) for number in (1, 1, 2))
    yield "one id", first.id == same.id != other.id
    yield "runs", drain()
    yield "result", [first.get(timeout=5), same.get(timeout=5)]
    yield "another id after the end", jobs.single.delay(1).id != first.id
    drain()
    failing = jobs.strict.delay(1)
    try:
        jobs.strict.delay(1, more=2)
    except DuplicateTaskError as error:
        yield "raises", error.task_id == failing.id
    drain()
    yield "another id after a failure", jobs.strict.delay(1).id != failing.id
    clear_locks(jobs.app)
    drain()


def once():
    from celery_once import AlreadyQueued

    def is_queued(*args, **options):
        try:
            jobs.once.apply_async(args, **options)
        except AlreadyQueued:
            return True
        return False

    yield "queued", [is_queued(1), is_queued(1), is_queued(2)]
    yield "runs", drain()
    yield "queued after the end", [is_queued(1, once={"timeout": 60}), is_queued(1)]
    drain()
    jobs.graceful.delay(1, 2)
    yield "graceful", jobs.graceful.delay(1, 3).state
    yield "runs of its keys", drain()


def before():
    jobs.before.delay(0)
    yield "runs", drain()
    jobs.before.delay(0)
    yield "runs again", drain()


def progress():
    from celery_progress.backend import Progress
    from django.test import Client

    from pgqueue.testing import run_all

    result = jobs.progress.delay(2)
    yield "waits", Progress(result).get_info()
    yield "runs", drain()
    yield "ended", json.loads(Client().get(f"/{result.id}/").content)
    retried = jobs.retried.delay(600)
    run_all()
    yield "retry", Progress(retried).get_info()
    retried.revoke()
    failed = jobs.boom.delay(1)
    drain()
    yield "failed", Progress(failed).get_info()
    revoked = jobs.progress.delay(1)
    revoked.revoke()
    yield "revoked", Progress(revoked).get_info()


def results():
    from django_celery_results.models import TaskResult

    call_command("migrate", "django_celery_results", verbosity=0)
    done = jobs.fine.delay(3)
    drain()
    yield "result", done.get(timeout=5)
    yield "rows", TaskResult.objects.count()
    TaskResult.objects.store_result("application/json", "utf-8", "old", "3", "SUCCESS")
    yield "an old row", TaskResult.objects.get().as_dict()["status"]
    for module in ("managers", "utils", "views", "backends.database"):
        try:
            __import__(f"django_celery_results.{module}")
            yield module, True
        except ImportError as error:
            yield module, type(error).__name__
    call_command("migrate", "django_celery_results", "zero", verbosity=0)


def sentry():
    import sentry_sdk
    from sentry_sdk.integrations.celery import CeleryIntegration

    told = []
    sentry_sdk.init(
        dsn="http://key@localhost/1",
        integrations=[CeleryIntegration(monitor_beat_tasks=True)],
        before_send=lambda event, hint: told.append(event),
        before_send_transaction=lambda event, hint: told.append(event),
        traces_sample_rate=1.0,
    )
    with sentry_sdk.start_transaction(name="web"):
        jobs.boom.delay(1)
        jobs.fine.delay(2)
    jobs.app.send_task("fine", args=[3])
    yield "headers", ["sentry-trace" in each.metadata for each in Message.objects.order_by("pk")]
    drain()
    yield (
        "errors",
        [
            (each["exception"]["values"][-1]["value"], each["logger"], each["extra"]["task"])
            for each in told
            if "exception" in each
        ],
    )
    yield (
        "spans",
        [
            (span["op"], span["description"])
            for each in told
            for span in each.get("spans", ())
            if "queue" in span["op"]
        ],
    )
    yield "transactions", [each["transaction"] for each in told if "spans" in each]


def opentelemetry():
    from opentelemetry import trace
    from opentelemetry.instrumentation.celery import CeleryInstrumentor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument(tracer_provider=provider)
    with trace.get_tracer("web").start_as_current_span("web"):
        jobs.boom.delay(1)
        jobs.fine.delay(2)
        jobs.retried.delay(0)
    drain()
    spans = exporter.get_finished_spans()
    names = {each.context.span_id: each.name for each in spans}
    yield (
        "spans",
        [
            (each.name, each.parent and names[each.parent.span_id], each.status.status_code.name)
            for each in spans
        ],
    )
    yield "traces", len({each.context.trace_id for each in spans})


print(json.dumps(dict(globals()[sys.argv[1]]()), default=str))
