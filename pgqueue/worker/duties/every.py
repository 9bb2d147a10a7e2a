"""All duties there are."""

from __future__ import annotations

from pgqueue.conf import settings
from pgqueue.worker.duties import Duty
from pgqueue.worker.duties.expire import Expire
from pgqueue.worker.duties.forget import Forget
from pgqueue.worker.duties.lanes import Lanes
from pgqueue.worker.duties.partitions import Partitions
from pgqueue.worker.duties.promote import Promote
from pgqueue.worker.duties.purge import Purge
from pgqueue.worker.duties.rescue import Rescue
from pgqueue.worker.duties.schedule import Schedule


def every(*, database: str) -> list[Duty]:
    """Return each duty, as the project's settings have it.

    Args:
        database: the alias of the one that they are done in.
    """
    options = settings()
    return [
        Promote(),
        Rescue(lease=options.lease, max_lost=options.max_lost),
        Schedule(database=database),
        Expire(),
        Lanes(),
        Partitions(retention=options.retention),
        Purge(retention=options.retention, dead_retention=options.dead_retention),
        Forget(),
    ]
