import django
from django.contrib.auth.models import Group

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def total(prices, discount=0):
    return {"total": sum(prices) - discount, "prices": prices}


@task(queue_name="mail", priority=5)
async def greet(name):
    return f"Hello {name}"


@task(takes_context=True)
def attempt(context):
    return [context.attempt, context.task_result.args]


@task
def break_down(reason):
    raise LookupError(reason)


@task
def join(name):
    return Group.objects.get_or_create(name=name)[1]
