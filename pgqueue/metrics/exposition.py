"""Write figures in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from pgqueue.database.connections import borrow
from pgqueue.database.transactions import answer_within
from pgqueue.metrics.fleet import Fleet

PATIENCE = "10s"


def of_the_queue(alias: str, *, accept: str) -> tuple[bytes, str]:
    """Return the figures of the whole queue, and their content type.

    Args:
        alias: the alias of the queue's database.
        accept: the header Accept of the request.
    """
    with borrow(alias) as connection, connection.transaction(force_rollback=True):
        answer_within(connection, PATIENCE)
        return encoded(Fleet(connection), accept=accept)


def encoded(collector: Collector, *, accept: str) -> tuple[bytes, str]:
    """Return the figures of a collector as text, and their content type."""
    registry = CollectorRegistry()
    registry.register(collector)
    encode, kind = choose_encoder(accept)
    return encode(registry), kind
