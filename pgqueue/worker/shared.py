"""The values that all parts of one worker share. They are made once, and handed forward."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pgqueue.claiming.registration import Registration, WorkerIds
from pgqueue.claiming.run_counts import Tally
from pgqueue.conf import settings
from pgqueue.database.connections import Session
from pgqueue.database.transactions import is_pooled
from pgqueue.duties.all import all_duties
from pgqueue.duties.service import Duties
from pgqueue.engine.workers import WorkerInfo, versions
from pgqueue.events import subscribing
from pgqueue.tasks import scheduling, tenants
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.leases import Leases
from pgqueue.worker.main_session import MainSession
from pgqueue.worker.shutdown import Shutdown
from pgqueue.worker.stopping import StopRequests
from pgqueue.worker.wakeups import FetcherWakeup, Wakeups


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The values of one worker.

    Args:
        leases: the messages that it has leased.
        tally: the counts of its runs.
        registration: keeps its row, and gives the ids that it claims under.
        wakeups: wake its services.
        shutdown: the reasons for which it ends.
        listens: whether it listens for new messages.
    """

    config: WorkerConfig
    leases: Leases
    tally: Tally
    registration: Registration
    wakeups: Wakeups
    shutdown: Shutdown
    listens: bool

    @classmethod
    def of(
        cls,
        config: WorkerConfig,
        session: MainSession,
        requests: StopRequests,
        *,
        told: Mapping[str, Any],
        ids: WorkerIds | None,
    ) -> Shared:
        """Make the values.

        Args:
            session: connects to the queue's database.
            requests: the requests to stop.
            told: further entries of the worker's public information.
            ids: the ids under which it claims; None: new ids.

        Raises:
            psycopg.OperationalError: the database is unreachable.
        """
        with session.connected() as connection:
            listens = not config.poll_only and not is_pooled(connection)
        fetcher = FetcherWakeup()
        return cls(
            config=config,
            leases=Leases(),
            tally=Tally(tenants.counted_for()),
            registration=Registration(
                _info(config, told), notify_for=2 * settings().heartbeat, ids=ids
            ),
            wakeups=Wakeups(fetcher, _duties(config, fetcher) if config.duties else None),
            shutdown=Shutdown(requests, grace=config.grace),
            listens=listens,
        )


def _info(config: WorkerConfig, told: Mapping[str, Any]) -> WorkerInfo:
    return WorkerInfo(
        host=platform.node(),
        pid=os.getpid(),
        started_at=datetime.now(UTC),
        channels=config.channels if config.slots else [],
        excluded=config.excluded,
        info={
            "threads": config.threads,
            "async": config.coroutines,
            "duties": config.duties,
            **versions(),
            **told,
        },
    )


def _duties(config: WorkerConfig, fetcher: FetcherWakeup) -> Duties:
    return Duties(
        Session(config.database, name="duties"),
        all_duties(database=config.database, scheduling=scheduling, subscribing=subscribing),
        lease=settings().lease,
        on_done=fetcher.wake,
    )
