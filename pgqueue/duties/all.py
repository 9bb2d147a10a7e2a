"""Which duties there are."""

from __future__ import annotations

from pgqueue.conf import settings
from pgqueue.duties.base import Duty
from pgqueue.duties.dispatch import Dispatch, Subscribing
from pgqueue.duties.expire import Expire
from pgqueue.duties.flows import Flows
from pgqueue.duties.forget import Forget
from pgqueue.duties.lanes import Lanes
from pgqueue.duties.partitions import Partitions
from pgqueue.duties.promote import Promote
from pgqueue.duties.purge import Purge
from pgqueue.duties.rescue import Rescue
from pgqueue.duties.retention import Retention
from pgqueue.duties.schedule import Schedules, Scheduling
from pgqueue.duties.sequence import Sequence
from pgqueue.duties.statistics import Statistics


def all_duties(*, database: str, scheduling: Scheduling, subscribing: Subscribing) -> list[Duty]:
    """Return each duty, as the project's settings configure it.

    Args:
        database: the alias of the database that they are done in.
        scheduling: what makes messages of ticks: `tasks.scheduling`, a layer above this one.
        subscribing: what makes messages of events: `events.subscribing`, another one.
    """
    options = settings()
    return [
        Promote(),
        Rescue(lease=options.lease, max_lost=options.max_lost),
        Schedules(database=database, scheduling=scheduling),
        Sequence(),
        Dispatch(database=database, subscribing=subscribing),
        Expire(),
        Lanes(),
        Flows(retention=options.retention),
        Retention(),
        Partitions(
            retention=options.retention,
            exports_first=options.export_before_drop,
            event_retention=options.event_retention,
            event_max_age=options.event_max_age,
        ),
        Purge(
            retention=options.retention,
            dead_retention=options.dead_retention,
            exports_first=options.export_before_drop,
        ),
        Statistics(),
        Forget(),
    ]


def consumer_duties() -> list[Duty]:
    """Return the duties without which a consumer would get nothing where no worker runs."""
    options = settings()
    return [Promote(), Rescue(lease=options.lease, max_lost=options.max_lost), Expire()]
