"""The readable face of the tables. Only `pgqueue.engine` changes a message's state."""

from pgqueue.models.backfill import Backfill
from pgqueue.models.channel import Channel
from pgqueue.models.dedupe import Dedupe
from pgqueue.models.duty import Duty
from pgqueue.models.event import Event, EventInbox
from pgqueue.models.export import Export
from pgqueue.models.flow import Blocked, Dependency, FailedMember, Flow
from pgqueue.models.group import Cursor, Group
from pgqueue.models.history import History
from pgqueue.models.lane import Bell, Gate, Lane
from pgqueue.models.log_floor import LogFloor
from pgqueue.models.message import Message
from pgqueue.models.operation import Operation
from pgqueue.models.overview import Overview
from pgqueue.models.policy import Policy
from pgqueue.models.purged import Purged
from pgqueue.models.reader import Reader
from pgqueue.models.schedule import Schedule
from pgqueue.models.staged import Staged
from pgqueue.models.statistics import Statistic, Tally, TallyBatch, Total
from pgqueue.models.subscription import Subscription
from pgqueue.models.waiter import Waiter
from pgqueue.models.webhook import Webhook
from pgqueue.models.worker import Worker
from pgqueue.models.write import Write

__all__ = [
    "Backfill",
    "Bell",
    "Blocked",
    "Channel",
    "Cursor",
    "Dedupe",
    "Dependency",
    "Duty",
    "Event",
    "EventInbox",
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
    "Schedule",
    "Staged",
    "Statistic",
    "Subscription",
    "Tally",
    "TallyBatch",
    "Total",
    "Waiter",
    "Webhook",
    "Worker",
    "Write",
]
