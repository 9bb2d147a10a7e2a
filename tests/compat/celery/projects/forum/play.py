from celery import group

from forum.celery import debug
from forum.tasks import index, notify


def play():
    told = group(notify.s(user, thread_id=7) for user in ("ann", "bob"))()
    failed = notify.apply_async(args=["nobody"])
    return [
        debug.delay().get(timeout=60),
        index.apply_async(args=([1, 2, 3],), countdown=1).get(timeout=60),
        told.get(timeout=60),
        repr(failed.get(timeout=60, propagate=False)),
        failed.state,
    ]
