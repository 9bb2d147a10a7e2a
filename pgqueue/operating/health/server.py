"""Checks of the database: its tables, sessions and notifications."""

from __future__ import annotations

from pgqueue.engine import health
from pgqueue.operating.health.judging import ExaminedQueue, Judgement, Status, status_of

TRANSACTIONS = 10_000_000
"""Transactions that a replication slot may lie behind: the time of its lag is not known."""
MOST_NOTIFIED = 0.9


def partitions(queue: ExaminedQueue) -> Judgement:
    days = health.days_ahead(queue.connection)
    status = Status.OK if days >= queue.limits.min_days else Status.WARNING
    return status if days > 0 else Status.FAILING, f"{days} days ahead", {"days_ahead": days}


def bloat(queue: ExaminedQueue) -> Judgement:
    size = health.size(queue.connection)
    megabytes = (size.table_bytes + size.index_bytes) / 2**20
    status = status_of(size.dead_rows, warning=queue.limits.max_bloat)
    return status, f"{size.dead_rows} dead rows, {megabytes:.0f} MB", size._asdict()


def horizon(queue: ExaminedQueue) -> Judgement:
    holders, hidden = health.holders(queue.connection), health.hidden(queue.connection)
    figures = {"holders": [each._asdict() for each in holders[:10]], "hidden": hidden}
    for each in holders:
        if (each.seconds or 0) > queue.limits.max_horizon or (
            each.seconds is None and each.transactions > TRANSACTIONS
        ):
            since = f"{each.transactions} transactions"
            if each.seconds is not None:
                since = f"{each.seconds:.0f} s"
            return Status.WARNING, f"held back for {since} by a {each.kind}, {each.who}", figures
    if hidden:
        said = f"the details of {hidden} sessions are hidden: GRANT pg_read_all_stats"
        return Status.UNKNOWN, said, figures
    oldest = max((each.seconds or 0 for each in holders), default=0)
    return Status.OK, f"held back for {oldest:.0f} s", figures


def connections(queue: ExaminedQueue) -> Judgement:
    used, most = health.connections(queue.connection)
    status = status_of(used / most, warning=queue.limits.max_connections)
    return status, f"{used} of {most} in use", {"used": used, "most": most}


def locks(queue: ExaminedQueue) -> Judgement:
    seen = health.locks(queue.connection)
    figures = {"locks": [each._asdict() for each in seen[:10]]}
    kept = [each for each in seen if (each.seconds or 0) > queue.limits.max_locked]
    if kept:
        first = kept[0]
        said = f"{first.what} is kept for {first.seconds:.0f} s by {first.who}"
        return Status.WARNING, f"{said}: pg_terminate_backend ends a session", figures
    if hidden := [each for each in seen if each.seconds is None]:
        said = f"{hidden[0].what} is kept by {hidden[0].who} for an unknown time"
        return Status.UNKNOWN, f"{said}: GRANT pg_read_all_stats", figures
    return Status.OK, "none is kept for long", figures


def notifications(queue: ExaminedQueue) -> Judgement:
    used, oldest = health.notifications(queue.connection)
    figures = {"used": used, "oldest": oldest}
    said = f"{used:.0%} of their queue is full"
    status = status_of(used, warning=queue.limits.max_notify, failing=MOST_NOTIFIED)
    if status != Status.OK:
        said += (
            ". Once the queue is full, every enqueue and publish fails. It is not emptied while a "
            f"listening session is in a transaction: {'; '.join(oldest) or 'none was seen'}"
        )
    return status, said, figures
