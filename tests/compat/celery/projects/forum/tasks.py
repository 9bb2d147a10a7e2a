from functools import wraps

from celery import shared_task
from celery.utils.log import get_task_logger

log = get_task_logger(__name__)


def unless_read_only(function):
    @wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


@shared_task(rate_limit="600/m")
@unless_read_only
def index(ids):
    log.info("indexing %s", ids)
    return len(ids)


@shared_task(rate_limit="3000/m", acks_late=True)
def notify(user, thread_id=None):
    if user == "nobody":
        raise LookupError(user)
    return [user, thread_id]


@shared_task
def purge(): ...
