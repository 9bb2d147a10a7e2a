"""Tasks as code for django.tasks writes them, and some with pgqueue's options."""

from __future__ import annotations

from collections import Counter
from datetime import date, timedelta
from typing import Any

import django
from django.contrib.auth.models import Group, Permission

from pgqueue.backend import task as postgres_task
from pgqueue.exceptions import Cancel, Discard

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def add(a, b=0):
    return a + b


@task()
async def double(number):
    return 2 * number


@task(priority=7, queue_name="mail")
def mail(to):
    return f"mailed {to}"


@task
def echo(*args, **kwargs):
    return [list(args), kwargs]


@task
def fail(message="no"):
    raise ValueError(message)


@task(takes_context=True)
def look(context, word="x"):
    result = context.task_result
    return [word, context.attempt, result.id, str(result.status), len(result.errors)]


@task(backend="patient", takes_context=True)
def fail_twice(context):
    if context.attempt < 3:
        raise ValueError(f"attempt {context.attempt}")
    return [error.exception_class_path for error in context.task_result.errors]


@task(backend="patient", takes_context=True)
def handle(context, payload):
    if context.attempt < 2:
        raise ValueError("not yet")
    result = context.task_result
    return [payload, result.args, len(result.errors)]


@task(backend="dummy")
def elsewhere(word):
    return word


@task(backend="second")
def there(word):
    return word


@postgres_task(max_attempts=2, backoff=[0], metadata={"from": "decorator"}, takes_context=True)
def tell(context, word):
    return [word, context.metadata, context.cancelled]


@postgres_task(atomic=True, key=lambda name: name)
def join(name):
    Group.objects.create(name=name)


@postgres_task
def tomorrow(day: date) -> date:
    return day + timedelta(days=1)


@task(backend="dummy", queue_name="odd", takes_context=True)
def odd(context):
    return [context.task_result.task.queue_name, context.task_result.backend]


@postgres_task(backend="dummy")
def stuck():
    """Told to be atomic, or to time out, where it is enqueued."""


@postgres_task(atomic=True)
def dangle():
    Permission.objects.create(name="x", codename="x", content_type_id=10**6)


@postgres_task(takes_context=True)
def in_steps(context, steps):
    done = (context.progress or 0) + 1
    if done < steps:
        context.defer(0, done)
    context.checkpoint(done)
    context.extend(60)
    return context.progress


@postgres_task(takes_context=True)
async def in_async_steps(context):
    await context.acheckpoint("noted")
    await context.aextend(60)
    return context.progress


@task
def give_up(how):
    raise {"discard": Discard, "cancel": Cancel}[how]("not worth it")


@task
def counted(words):
    return Counter(words)


@task
def numbered():
    return {1: {2.5: None}}


@postgres_task
def founded(name: str) -> Group:
    return Group.objects.create(name=name)


@postgres_task
def rename(group: Group, name: str) -> None:
    group.name = name
    group.save()


def plain(number: int) -> int:
    return number


def not_top_level() -> Any:
    def inner() -> None:
        """Not a function of a module."""

    return inner


@postgres_task(encrypted=True)
def keep_encrypted(text):
    return f"{text}, kept"


@postgres_task(weight=5)
def lift(number):
    return number


@postgres_task(dedupe_key="fold", on_conflict="replace", longest_wait=600)
def fold() -> None: ...
