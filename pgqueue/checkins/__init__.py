"""Tell a monitor when the runs of schedules begin and how they end: by URL, or Sentry Crons."""

from pgqueue.checkins.reporting import (
    CheckIn,
    Reporter,
    Status,
    report_schedules,
    stop_reporting,
)
from pgqueue.checkins.sentry import SentryCrons
from pgqueue.checkins.urls import URLs

__all__ = [
    "CheckIn",
    "Reporter",
    "SentryCrons",
    "Status",
    "URLs",
    "report_schedules",
    "stop_reporting",
]
