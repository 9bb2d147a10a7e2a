"""Webhooks: events that are posted to URLs, signed, until they are taken."""

from pgqueue.webhooks.bodies import serializer
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
