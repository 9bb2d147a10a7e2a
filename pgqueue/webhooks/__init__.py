"""Webhooks: signed posts of events to URLs, retried until the endpoint accepts them."""

from pgqueue.options.serializers import serializer
from pgqueue.webhooks.operations import (
    create,
    delete,
    disable,
    enable,
    pause,
    replay,
    resume,
    rotate,
    send_test,
)

__all__ = [
    "create",
    "delete",
    "disable",
    "enable",
    "pause",
    "replay",
    "resume",
    "rotate",
    "send_test",
    "serializer",
]
