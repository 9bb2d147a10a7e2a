from celery import Task, chord, group, shared_task, signature
from celery.exceptions import Ignore
from celery.utils.log import get_task_logger
from django.contrib.auth.models import Group as Widget

logger = get_task_logger(__name__)


class Noting(Task):
    def on_success(self, retval, task_id, args, kwargs):
        Widget.objects.create(name=f"{self.name} returned {retval}")

    def on_failure(self, exc, task_id, args, kwargs, einfo):
        Widget.objects.create(name=f"{self.name} raised {exc!r}")


@shared_task
def add(x, y):
    logger.info("Adding %s and %s", x, y)
    return x + y


@shared_task
def mul(x, y):
    return x * y


@shared_task
def xsum(numbers):
    return sum(numbers)


@shared_task
def count_widgets():
    return Widget.objects.count()


@shared_task
def rename_widget(widget_id, name):
    widget = Widget.objects.get(id=widget_id)
    widget.name = name
    widget.save()


@shared_task(ignore_result=True)
def forgotten():
    Widget.objects.create(name="nobody asks")


@shared_task(bind=True, max_retries=3, default_retry_delay=0)
def flaky(self, succeeds_at):
    if self.request.retries < succeeds_at:
        raise self.retry(exc=ValueError(f"failed {self.request.retries} times"))
    return f"succeeded after {self.request.retries} retries"


@shared_task(
    bind=True,
    autoretry_for=(KeyError,),
    retry_kwargs={"max_retries": 2, "countdown": 0},
)
def error_task(self):
    raise KeyError(f"retry {self.request.retries}")


@shared_task(base=Noting)
def noted(x):
    return 10 // x


@shared_task
def ignored():
    Widget.objects.create(name="ignored")
    raise Ignore


@shared_task
def nested(x):
    return add.delay(x, 1).id and "enqueued"


@shared_task
def note(value, what="noted"):
    Widget.objects.create(name=f"{what} {value}")


@shared_task
def log_error(request, exc, traceback):
    Widget.objects.create(name=f"{request.task} failed: {type(exc).__name__}")


@shared_task
def fail(*args):
    raise ValueError("no")


@shared_task
def spread(numbers, callback):
    callback = signature(callback)
    group(callback.clone([number]) for number in numbers)()


@shared_task(bind=True)
def replaced(self, x):
    return self.replace(chord([add.s(x, 1), add.s(x, 2)], xsum.s()))


@shared_task(bind=True)
def replaced_by_group(self, x):
    return self.replace(group(add.s(x, 1), add.s(x, 2)))
