from typing import Any

import django
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from tests.backend.project import tasks

if django.VERSION >= (6, 0):
    from django.tasks import default_task_backend
else:
    from django_tasks import default_task_backend


@csrf_exempt
def order(request: HttpRequest) -> JsonResponse:
    """Enqueue some work in a transaction; say where to look for what came of it."""
    with transaction.atomic():
        results = [
            tasks.total.enqueue((1, 2, 3), discount=1),
            tasks.greet.enqueue("Zoë"),
            tasks.attempt.enqueue(),
            tasks.break_down.enqueue("out of paper"),
            tasks.join.enqueue("customers"),
        ]
    return JsonResponse({"ids": [each.id for each in results], "pages": list(map(page, results))})


def result(request: HttpRequest, id: str) -> JsonResponse:
    """Show what is known of one task."""
    return JsonResponse(page(default_task_backend.get_result(id)))


def page(result: Any) -> dict[str, Any]:
    return {
        "task": result.task.module_path,
        "status": result.status,
        "args": result.args,
        "kwargs": result.kwargs,
        "attempts": result.attempts,
        "errors": [error.exception_class_path for error in result.errors],
        "value": result.return_value if result.status == "SUCCESSFUL" else None,
        "is_finished": result.is_finished,
    }


urlpatterns = [path("order/", order), path("result/<str:id>/", result)]
