"""The readable face of the tables. Only `pgqueue.engine` changes a message's state."""

from pgqueue.models.channel import Channel, Policy
from pgqueue.models.event import (
    AppendLock,
    Cursor,
    Event,
    EventInbox,
    Group,
    LogFloor,
    Reader,
    Staged,
    Waiter,
    Write,
)
from pgqueue.models.flow import Blocked, Dependency, FailedMember, Flow
from pgqueue.models.lane import Bell, Breaker, Gate, Lane
from pgqueue.models.message import Dedupe, History, Message
from pgqueue.models.operation import Backfill, Export, Operation, Purged
from pgqueue.models.run_log import RunLog
from pgqueue.models.schedule import Schedule
from pgqueue.models.statistics import (
    Overview,
    Statistic,
    Tally,
    TallyBatch,
    TenantTotal,
    Total,
)
from pgqueue.models.step import EventWait, Step, StoredSignal
from pgqueue.models.subscription import Subscription
from pgqueue.models.task_pause import TaskPause
from pgqueue.models.webhook import Webhook
from pgqueue.models.worker import Duty, Worker

__all__ = [
    "AppendLock",
    "Backfill",
    "Bell",
    "Blocked",
    "Breaker",
    "Channel",
    "Cursor",
    "Dedupe",
    "Dependency",
    "Duty",
    "Event",
    "EventInbox",
    "EventWait",
    "Export",
    "FailedMember",
    "Flow",
    "Gate",
    "Group",
    "History",
    "Lane",
    "LogFloor",
    "Message",
    "Operation",
    "Overview",
    "Policy",
    "Purged",
    "Reader",
    "RunLog",
    "Schedule",
    "Staged",
    "Statistic",
    "Step",
    "StoredSignal",
    "Subscription",
    "Tally",
    "TallyBatch",
    "TaskPause",
    "TenantTotal",
    "Total",
    "Waiter",
    "Webhook",
    "Worker",
    "Write",
]
