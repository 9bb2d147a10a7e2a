from celery import chain, chord, group
from celery.result import AsyncResult
from django.contrib.auth.models import Group as Widget
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.html import format_html
from proj.celery import app, debug_task

from demoapp import tasks

CALLS = {
    "add": lambda: tasks.add.delay(2, y=3),
    "mul": lambda: tasks.mul.apply_async((4, 5), countdown=0.1),
    "xsum": lambda: tasks.xsum.apply_async(kwargs={"numbers": [1, 2, 3]}, expires=60),
    "debug": lambda: debug_task.delay(1, "two", three=3.5),
    "sent": lambda: app.send_task("debug", ("by name",)),
    "signature": lambda: tasks.add.s(1).delay(2),
    "fails": lambda: tasks.xsum.delay(["a"]),
    "flaky": lambda: tasks.flaky.delay(2),
    "hopeless": lambda: tasks.flaky.delay(9),
    "error": lambda: tasks.error_task.delay(),
    "noted": lambda: tasks.noted.delay(5),
    "noted_failure": lambda: tasks.noted.delay(0),
    "own_id": lambda: tasks.add.apply_async((1, 1), task_id="of-the-site"),
    "applied": lambda: tasks.flaky.apply((1,)),
    "nested": lambda: tasks.nested.delay(1),
}
add, mul, xsum, note = tasks.add, tasks.mul, tasks.xsum, tasks.note
CANVAS = {
    "chain": lambda: chain(add.s(2, 2), add.s(4), add.s(8))(),
    "pipe": lambda: (add.s(2, 2) | add.s(4) | add.s(8)).delay(),
    "partial": lambda: (add.s(4) | mul.s(8))(16),
    "immutable": lambda: (add.si(2, 2) | add.si(4, 4) | add.si(8, 8))(),
    "before": lambda: chain(add.s(2, 2), add.s(4))().parent,
    "chain_fails": lambda: chain(add.s(2, 2), tasks.fail.s(), note.s("never"))().parent,
    "errors_of_a_chain": lambda: (
        chain(mul.s(1, 1), tasks.fail.s(), note.s("never")).on_error(tasks.log_error.s())().parent
    ),
    "linked": lambda: add.apply_async((2, 2), link=[note.s("linked"), mul.s(3) | note.s("both")]),
    "errback": lambda: tasks.flaky.apply_async((9,), link_error=tasks.log_error.s()),
    "group": lambda: group(add.s(i, i) for i in range(10))(),
    "group_of_groups": lambda: group(group(add.s(1, 1), add.s(2, 2)), add.s(3, 3))(),
    "group_with_arguments": lambda: group(add.s(1), add.s(2)).delay(10),
    "group_after_a_task": lambda: (add.s(1, 1) | group(add.s(1), add.s(2)))(),
    "group_fails": lambda: group(add.s(1, 1), tasks.fail.s())(),
    "chord": lambda: chord((add.s(i, i) for i in range(10)), xsum.s())(),
    "chord_of_one": lambda: chord([add.s(1, 1)])(xsum.s()),
    "chord_of_none": lambda: chord([], xsum.s())(),
    "chord_in_a_pipe": lambda: (group(add.s(i, i) for i in range(10)) | xsum.s() | add.s(1))(),
    "chord_fails": lambda: chord([add.s(1, 1), tasks.fail.s()], xsum.s())(),
    "errors_of_a_chord": lambda: chord(
        [add.s(1, 1), tasks.fail.s()], tasks.noted.s().on_error(tasks.log_error.s())
    )(),
    "immutable_body": lambda: chord([add.s(1, 1), add.s(2, 2)], mul.si(3, 4))(),
    "group_in_a_chain": lambda: (add.s(1, 1) | group(add.s(1), add.s(2)) | xsum.s() | add.s(1))(),
    "one_in_a_chain": lambda: (add.s(1, 1) | group(add.s(1)) | add.s(3))(),
    "chains_in_a_chord": lambda: chord([add.s(1, 1) | add.s(1), add.s(2, 2)], xsum.s())(),
    "chords_in_a_chord": lambda: chord([chord([add.s(1, 1)], xsum.s()), add.s(2, 2)], xsum.s())(),
    "chain_as_a_body": lambda: chord([add.s(1, 1)], chain(xsum.s(), add.s(1), add.s(2)))(),
    "map": lambda: xsum.map([[1, 2], [3, 4]]).delay(),
    "starmap": lambda: add.starmap(zip(range(10), range(10), strict=True)).apply_async(),
    "chunks": lambda: add.chunks(zip(range(10), range(10), strict=True), 4)(),
    "spread": lambda: tasks.spread.delay([1, 2], note.s("spread")),
    "replaced": lambda: tasks.replaced.delay(1),
    "replaced_by_group": lambda: tasks.replaced_by_group.delay(1),
    "replaced_in_a_chain": lambda: (tasks.replaced.s(1) | add.s(10))(),
    "replaced_in_a_chord": lambda: chord([tasks.replaced.s(1), add.s(1, 1)], xsum.s())(),
}


def start(request, name):
    if name == "called":
        return HttpResponse(tasks.add(1, 2))
    if name == "wrong":
        try:
            tasks.add.delay(1)
        except TypeError:
            return HttpResponse("It takes two.")
    if name == "on_commit":
        with transaction.atomic():
            widget = Widget.objects.create(name="old name")
            tasks.rename_widget.delay_on_commit(widget.pk, "new name")
        return HttpResponse("It is renamed later.")
    if name == "forgotten":
        tasks.forgotten.delay()
        tasks.ignored.delay()
        return HttpResponse("Nobody asks what they return.")
    result = {**CALLS, **CANVAS}[name]()
    if result.ready() and name == "applied":
        return HttpResponse(result.get())
    ids = [each.id for each in (result if hasattr(result, "completed_count") else [result])]
    return redirect("/result/" + ",".join(ids) + "/")


def result(request, ids):
    results = [AsyncResult(id) for id in ids.split(",")]
    ready = all(each.ready() for each in results)  # before the rest, which may be later by then
    shown = "".join(
        format_html(
            "<h1>{}</h1><p>{}</p><p>{}</p>",
            each.state,
            repr(each.result),
            "with a traceback" if each.traceback else "",
        )
        for each in results
    )
    return HttpResponse(shown + ("ready" if ready else ""))


def widgets(request):
    return HttpResponse(", ".join(Widget.objects.order_by("name").values_list("name", flat=True)))
