from celery import chain, chord, group
from django.conf import settings

from findings import tasks
from findings.celery import app


def play():
    pushed = (tasks.push_to_jira.s(3) | tasks.score.s()).on_error(tasks.alert.s()).delay()
    found = [
        tasks.deduplicate.delay(1, product=2).get(timeout=60),
        group(tasks.deduplicate.s(each) for each in range(2))().get(timeout=60),
        chord([tasks.score.s(each) for each in range(3)])(tasks.grade.s()).get(timeout=60),
        chain(tasks.score.s(1), tasks.score.s())().get(timeout=60),
        tasks.close_all.delay([1, 2]).get(timeout=60),
        repr(pushed.get(timeout=60, propagate=False)),
        pushed.parent.state,
    ]
    return [*found, app.conf.get("findings_batch"), settings.CELERY_FINDINGS_BATCH,
            bool(app.control.inspect(timeout=5).ping())]  # fmt: skip
