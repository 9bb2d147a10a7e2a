"""Functions that become messages: `@task`, its options, its runs and its results.

Raw messages have no function: `send()` stores them, and `receive()` leases them without a worker.
"""

from pgqueue.codec import encoding
from pgqueue.tasks import batching as batching
from pgqueue.tasks import latches as latches
from pgqueue.tasks.batch_calls import BatchCall
from pgqueue.tasks.context import TaskContext
from pgqueue.tasks.definition import Task, find_task, task
from pgqueue.tasks.delivery import Delivery
from pgqueue.tasks.instances import instance_form
from pgqueue.tasks.receiving import AsyncReceiver, Receiver, areceive, receive
from pgqueue.tasks.result import TaskError, TaskResult
from pgqueue.tasks.sending import asend, asend_many, send, send_many
from pgqueue.tasks.watching import Notice, watch

__all__ = [
    "AsyncReceiver",
    "BatchCall",
    "Delivery",
    "Notice",
    "Receiver",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "areceive",
    "asend",
    "asend_many",
    "find_task",
    "receive",
    "send",
    "send_many",
    "task",
    "watch",
]

encoding.register_forms(instance_form)
