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
    result = CALLS[name]()
    if result.ready() and name == "applied":
        return HttpResponse(result.get())
    return redirect("/result/" + result.id + "/")


def result(request, id):
    result = AsyncResult(id)
    ready = result.ready()  # before the rest, which may be later by then
    return HttpResponse(
        format_html(
            "<h1>{}</h1><p>{}</p><p>{}{}</p>",
            result.state,
            repr(result.result),
            "ready " if ready else "",
            "with a traceback" if result.traceback else "",
        )
    )


def widgets(request):
    return HttpResponse(", ".join(Widget.objects.order_by("name").values_list("name", flat=True)))
