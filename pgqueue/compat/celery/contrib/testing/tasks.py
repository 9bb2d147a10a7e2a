"""A task for the tests of a project."""

from pgqueue.compat.celery import current
from pgqueue.compat.celery.declaring import declare


def pong() -> str:
    """Return a word."""
    return "pong"


ping = declare(pong, None, {"name": "celery.ping"})
current.shared.remove(("celery.ping", current.latest()))
