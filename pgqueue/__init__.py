"""A job queue, message queue and event log for Django, on the PostgreSQL you already have."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pgqueue.database.guard import TransactionLost as TransactionLost
    from pgqueue.database.migration_check import NotMigrated as NotMigrated
    from pgqueue.events.acting import acting_as as acting_as
    from pgqueue.events.buffering import BufferedPublisher as BufferedPublisher
    from pgqueue.events.consumers import consumer as consumer
    from pgqueue.events.later import publish_later as publish_later
    from pgqueue.events.publishing import apublish as apublish
    from pgqueue.events.publishing import apublish_many as apublish_many
    from pgqueue.events.publishing import publish as publish
    from pgqueue.events.publishing import publish_many as publish_many
    from pgqueue.events.reading import aread as aread
    from pgqueue.events.reading import read as read
    from pgqueue.events.recorded import RecordedEvent as RecordedEvent
    from pgqueue.events.relaying import relay as relay
    from pgqueue.events.subscribing import subscribe as subscribe
    from pgqueue.events.tailing import tail as tail
    from pgqueue.events.typed import Event as Event
    from pgqueue.exceptions import BackfillConflict as BackfillConflict
    from pgqueue.exceptions import BatchTooLarge as BatchTooLarge
    from pgqueue.exceptions import Cancel as Cancel
    from pgqueue.exceptions import ChannelFull as ChannelFull
    from pgqueue.exceptions import ChannelNotWatched as ChannelNotWatched
    from pgqueue.exceptions import ChannelPaused as ChannelPaused
    from pgqueue.exceptions import DecryptionFailed as DecryptionFailed
    from pgqueue.exceptions import Defer as Defer
    from pgqueue.exceptions import DeliveryFailed as DeliveryFailed
    from pgqueue.exceptions import Discard as Discard
    from pgqueue.exceptions import DuplicateMessage as DuplicateMessage
    from pgqueue.exceptions import EventsRemoved as EventsRemoved
    from pgqueue.exceptions import FeedUnavailable as FeedUnavailable
    from pgqueue.exceptions import FlowDoesNotExist as FlowDoesNotExist
    from pgqueue.exceptions import HoldExpired as HoldExpired
    from pgqueue.exceptions import InvalidArgument as InvalidArgument
    from pgqueue.exceptions import InvalidArguments as InvalidArguments
    from pgqueue.exceptions import InvalidBackoff as InvalidBackoff
    from pgqueue.exceptions import InvalidChannel as InvalidChannel
    from pgqueue.exceptions import InvalidEvent as InvalidEvent
    from pgqueue.exceptions import InvalidFilter as InvalidFilter
    from pgqueue.exceptions import InvalidFlow as InvalidFlow
    from pgqueue.exceptions import InvalidGroup as InvalidGroup
    from pgqueue.exceptions import InvalidMessage as InvalidMessage
    from pgqueue.exceptions import InvalidPolicy as InvalidPolicy
    from pgqueue.exceptions import InvalidProgress as InvalidProgress
    from pgqueue.exceptions import InvalidResult as InvalidResult
    from pgqueue.exceptions import InvalidSchedule as InvalidSchedule
    from pgqueue.exceptions import InvalidSecret as InvalidSecret
    from pgqueue.exceptions import InvalidSubscription as InvalidSubscription
    from pgqueue.exceptions import InvalidTask as InvalidTask
    from pgqueue.exceptions import InvalidTracking as InvalidTracking
    from pgqueue.exceptions import InvalidWebhook as InvalidWebhook
    from pgqueue.exceptions import LeaseLost as LeaseLost
    from pgqueue.exceptions import MissingEncryptionKey as MissingEncryptionKey
    from pgqueue.exceptions import NewerPayload as NewerPayload
    from pgqueue.exceptions import NothingToHear as NothingToHear
    from pgqueue.exceptions import OtherTransactionWarning as OtherTransactionWarning
    from pgqueue.exceptions import ParentFailed as ParentFailed
    from pgqueue.exceptions import PayloadTooLarge as PayloadTooLarge
    from pgqueue.exceptions import PGQueueError as PGQueueError
    from pgqueue.exceptions import PositionAhead as PositionAhead
    from pgqueue.exceptions import ReceiverClosed as ReceiverClosed
    from pgqueue.exceptions import Retry as Retry
    from pgqueue.exceptions import TaskFailed as TaskFailed
    from pgqueue.exceptions import TaskResultDoesNotExist as TaskResultDoesNotExist
    from pgqueue.exceptions import TaskResultMismatch as TaskResultMismatch
    from pgqueue.exceptions import TaskTimeout as TaskTimeout
    from pgqueue.exceptions import TransactionLeftOpen as TransactionLeftOpen
    from pgqueue.exceptions import UnknownOperation as UnknownOperation
    from pgqueue.exceptions import UnknownTask as UnknownTask
    from pgqueue.exceptions import UnreadableEvent as UnreadableEvent
    from pgqueue.exceptions import UnreadablePayload as UnreadablePayload
    from pgqueue.exceptions import WaitInTransaction as WaitInTransaction
    from pgqueue.exceptions import WaitTimeout as WaitTimeout
    from pgqueue.exceptions import WebhookDisabled as WebhookDisabled
    from pgqueue.exceptions import WriteConflict as WriteConflict
    from pgqueue.inbox.aggregates import AggregateMessage as AggregateMessage
    from pgqueue.inbox.receiving import Received as Received
    from pgqueue.inbox.receiving import areceive_external as areceive_external
    from pgqueue.inbox.receiving import receive_external as receive_external
    from pgqueue.inbox.webhooks import receive_webhook as receive_webhook
    from pgqueue.operating.batches import Batch as Batch
    from pgqueue.operating.batches import batch as batch
    from pgqueue.operating.channels import Channel as Channel
    from pgqueue.options.retries import Exponential as Exponential
    from pgqueue.options.retries import backoff as backoff
    from pgqueue.options.schedules import Schedule as Schedule
    from pgqueue.tasks import Delivery as Delivery
    from pgqueue.tasks import Notice as Notice
    from pgqueue.tasks import Task as Task
    from pgqueue.tasks import TaskContext as TaskContext
    from pgqueue.tasks import TaskResult as TaskResult
    from pgqueue.tasks import areceive as areceive
    from pgqueue.tasks import asend as asend
    from pgqueue.tasks import asend_many as asend_many
    from pgqueue.tasks import receive as receive
    from pgqueue.tasks import send as send
    from pgqueue.tasks import send_many as send_many
    from pgqueue.tasks import task as task
    from pgqueue.tasks import watch as watch
    from pgqueue.tasks.canvas import Call as Call
    from pgqueue.tasks.canvas import chain as chain
    from pgqueue.tasks.canvas import chord as chord
    from pgqueue.tasks.canvas import group as group
    from pgqueue.tasks.flows import Flow as Flow
    from pgqueue.tasks.flows import Progress as Progress
    from pgqueue.tasks.flows import aget_flow as aget_flow
    from pgqueue.tasks.flows import flow as flow
    from pgqueue.tasks.flows import get_flow as get_flow

# Importing the package must need neither settings nor models: Spark's executors
# import it too. So each name is loaded when it is first used.
_HOMES = {
    "AggregateMessage": "pgqueue.inbox.aggregates",
    "BackfillConflict": "pgqueue.exceptions",
    "Batch": "pgqueue.operating.batches",
    "BatchTooLarge": "pgqueue.exceptions",
    "BufferedPublisher": "pgqueue.events.buffering",
    "Call": "pgqueue.tasks.canvas",
    "Cancel": "pgqueue.exceptions",
    "Channel": "pgqueue.operating.channels",
    "ChannelFull": "pgqueue.exceptions",
    "ChannelNotWatched": "pgqueue.exceptions",
    "ChannelPaused": "pgqueue.exceptions",
    "Defer": "pgqueue.exceptions",
    "Delivery": "pgqueue.tasks",
    "DecryptionFailed": "pgqueue.exceptions",
    "DeliveryFailed": "pgqueue.exceptions",
    "Discard": "pgqueue.exceptions",
    "DuplicateMessage": "pgqueue.exceptions",
    "Event": "pgqueue.events.typed",
    "EventsRemoved": "pgqueue.exceptions",
    "Exponential": "pgqueue.options.retries",
    "FeedUnavailable": "pgqueue.exceptions",
    "Flow": "pgqueue.tasks.flows",
    "FlowDoesNotExist": "pgqueue.exceptions",
    "HoldExpired": "pgqueue.exceptions",
    "InvalidArgument": "pgqueue.exceptions",
    "InvalidArguments": "pgqueue.exceptions",
    "InvalidBackoff": "pgqueue.exceptions",
    "InvalidChannel": "pgqueue.exceptions",
    "InvalidEvent": "pgqueue.exceptions",
    "InvalidFilter": "pgqueue.exceptions",
    "InvalidFlow": "pgqueue.exceptions",
    "InvalidGroup": "pgqueue.exceptions",
    "InvalidMessage": "pgqueue.exceptions",
    "InvalidPolicy": "pgqueue.exceptions",
    "InvalidProgress": "pgqueue.exceptions",
    "InvalidResult": "pgqueue.exceptions",
    "InvalidSchedule": "pgqueue.exceptions",
    "InvalidSecret": "pgqueue.exceptions",
    "InvalidSubscription": "pgqueue.exceptions",
    "InvalidTask": "pgqueue.exceptions",
    "InvalidTracking": "pgqueue.exceptions",
    "InvalidWebhook": "pgqueue.exceptions",
    "LeaseLost": "pgqueue.exceptions",
    "NotMigrated": "pgqueue.database.migration_check",
    "MissingEncryptionKey": "pgqueue.exceptions",
    "NewerPayload": "pgqueue.exceptions",
    "NothingToHear": "pgqueue.exceptions",
    "Notice": "pgqueue.tasks",
    "OtherTransactionWarning": "pgqueue.exceptions",
    "PGQueueError": "pgqueue.exceptions",
    "ParentFailed": "pgqueue.exceptions",
    "PayloadTooLarge": "pgqueue.exceptions",
    "PositionAhead": "pgqueue.exceptions",
    "Progress": "pgqueue.tasks.flows",
    "Received": "pgqueue.inbox.receiving",
    "ReceiverClosed": "pgqueue.exceptions",
    "RecordedEvent": "pgqueue.events.recorded",
    "Retry": "pgqueue.exceptions",
    "Schedule": "pgqueue.options.schedules",
    "Task": "pgqueue.tasks",
    "TaskContext": "pgqueue.tasks",
    "TaskFailed": "pgqueue.exceptions",
    "TaskResult": "pgqueue.tasks",
    "TaskResultDoesNotExist": "pgqueue.exceptions",
    "TaskResultMismatch": "pgqueue.exceptions",
    "TaskTimeout": "pgqueue.exceptions",
    "TransactionLeftOpen": "pgqueue.exceptions",
    "TransactionLost": "pgqueue.database.guard",
    "UnknownOperation": "pgqueue.exceptions",
    "UnknownTask": "pgqueue.exceptions",
    "UnreadableEvent": "pgqueue.exceptions",
    "UnreadablePayload": "pgqueue.exceptions",
    "WaitInTransaction": "pgqueue.exceptions",
    "WaitTimeout": "pgqueue.exceptions",
    "WebhookDisabled": "pgqueue.exceptions",
    "WriteConflict": "pgqueue.exceptions",
    "acting_as": "pgqueue.events.acting",
    "aget_flow": "pgqueue.tasks.flows",
    "apublish": "pgqueue.events.publishing",
    "apublish_many": "pgqueue.events.publishing",
    "aread": "pgqueue.events.reading",
    "areceive": "pgqueue.tasks",
    "areceive_external": "pgqueue.inbox.receiving",
    "asend": "pgqueue.tasks",
    "asend_many": "pgqueue.tasks",
    "backoff": "pgqueue.options.retries",
    "batch": "pgqueue.operating.batches",
    "chain": "pgqueue.tasks.canvas",
    "chord": "pgqueue.tasks.canvas",
    "consumer": "pgqueue.events.consumers",
    "flow": "pgqueue.tasks.flows",
    "get_flow": "pgqueue.tasks.flows",
    "group": "pgqueue.tasks.canvas",
    "publish": "pgqueue.events.publishing",
    "publish_later": "pgqueue.events.later",
    "publish_many": "pgqueue.events.publishing",
    "read": "pgqueue.events.reading",
    "receive": "pgqueue.tasks",
    "receive_external": "pgqueue.inbox.receiving",
    "receive_webhook": "pgqueue.inbox.webhooks",
    "relay": "pgqueue.events.relaying",
    "send": "pgqueue.tasks",
    "send_many": "pgqueue.tasks",
    "subscribe": "pgqueue.events.subscribing",
    "tail": "pgqueue.events.tailing",
    "task": "pgqueue.tasks",
    "watch": "pgqueue.tasks",
}

__all__ = [
    "AggregateMessage",
    "BackfillConflict",
    "Batch",
    "BatchTooLarge",
    "BufferedPublisher",
    "Call",
    "Cancel",
    "Channel",
    "ChannelFull",
    "ChannelNotWatched",
    "ChannelPaused",
    "DecryptionFailed",
    "Defer",
    "Delivery",
    "DeliveryFailed",
    "Discard",
    "DuplicateMessage",
    "Event",
    "EventsRemoved",
    "Exponential",
    "FeedUnavailable",
    "Flow",
    "FlowDoesNotExist",
    "HoldExpired",
    "InvalidArgument",
    "InvalidArguments",
    "InvalidBackoff",
    "InvalidChannel",
    "InvalidEvent",
    "InvalidFilter",
    "InvalidFlow",
    "InvalidGroup",
    "InvalidMessage",
    "InvalidPolicy",
    "InvalidProgress",
    "InvalidResult",
    "InvalidSchedule",
    "InvalidSecret",
    "InvalidSubscription",
    "InvalidTask",
    "InvalidTracking",
    "InvalidWebhook",
    "LeaseLost",
    "MissingEncryptionKey",
    "NewerPayload",
    "NotMigrated",
    "NothingToHear",
    "Notice",
    "OtherTransactionWarning",
    "PGQueueError",
    "ParentFailed",
    "PayloadTooLarge",
    "PositionAhead",
    "Progress",
    "Received",
    "ReceiverClosed",
    "RecordedEvent",
    "Retry",
    "Schedule",
    "Task",
    "TaskContext",
    "TaskFailed",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultMismatch",
    "TaskTimeout",
    "TransactionLeftOpen",
    "TransactionLost",
    "UnknownOperation",
    "UnknownTask",
    "UnreadableEvent",
    "UnreadablePayload",
    "WaitInTransaction",
    "WaitTimeout",
    "WebhookDisabled",
    "WriteConflict",
    "acting_as",
    "aget_flow",
    "apublish",
    "apublish_many",
    "aread",
    "areceive",
    "areceive_external",
    "asend",
    "asend_many",
    "backoff",
    "batch",
    "chain",
    "chord",
    "consumer",
    "flow",
    "get_flow",
    "group",
    "publish",
    "publish_later",
    "publish_many",
    "read",
    "receive",
    "receive_external",
    "receive_webhook",
    "relay",
    "send",
    "send_many",
    "subscribe",
    "tail",
    "task",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
