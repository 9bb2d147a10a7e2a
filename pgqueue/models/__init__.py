"""The readable face of the tables. Only `pgqueue.engine` changes a message's state."""

from pgqueue.models.channel import Channel
from pgqueue.models.duty import Duty
from pgqueue.models.history import History
from pgqueue.models.message import Message
from pgqueue.models.worker import Worker

__all__ = ["Channel", "Duty", "History", "Message", "Worker"]
