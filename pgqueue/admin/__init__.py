"""The queue in Django's admin: its lists, pages and operations.

A page reads a bounded number of rows, for any size of the tables: see `listing`.
"""

from pgqueue.admin.channel import ChannelAdmin
from pgqueue.admin.duty import DutyAdmin
from pgqueue.admin.event import EventAdmin
from pgqueue.admin.flow import FlowAdmin
from pgqueue.admin.group import GroupAdmin
from pgqueue.admin.history import HistoryAdmin
from pgqueue.admin.message import MessageAdmin
from pgqueue.admin.overview import OverviewAdmin
from pgqueue.admin.policy import PolicyAdmin
from pgqueue.admin.schedule import ScheduleAdmin
from pgqueue.admin.subscription import SubscriptionAdmin
from pgqueue.admin.worker import WorkerAdmin
from pgqueue.values.discovery import is_installed

if is_installed("webhooks"):
    from pgqueue.admin import webhook as webhook

__all__ = [
    "ChannelAdmin",
    "DutyAdmin",
    "EventAdmin",
    "FlowAdmin",
    "GroupAdmin",
    "HistoryAdmin",
    "MessageAdmin",
    "OverviewAdmin",
    "PolicyAdmin",
    "ScheduleAdmin",
    "SubscriptionAdmin",
    "WorkerAdmin",
]
