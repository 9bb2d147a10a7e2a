"""A worker in a thread of the test's process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from pgqueue.compat.celery.utils.nodenames import default_nodename
from pgqueue.conf import settings
from pgqueue.worker.config import WorkerConfig
from pgqueue.worker.worker import Worker


@contextmanager
def start_worker(
    app: Any,
    concurrency: int = 1,
    pool: str = "solo",
    loglevel: Any = None,
    logfile: Any = None,
    perform_ping_check: bool = True,
    ping_task_timeout: float = 10.0,
    shutdown_timeout: float = 10.0,
    queues: Any = None,
    **kwargs: Any,
) -> Iterator[Any]:
    """Run a worker of pgqueue's while the block lasts.

    The test must commit its messages: use `transaction=True`, or a TransactionTestCase.

    Args:
        concurrency: the number of threads.
        shutdown_timeout: seconds that running tasks have at the end.
        queues: the channels, as a list or with commas; None: all.
        loglevel, logfile, pool, perform_ping_check, ping_task_timeout, kwargs: without effect.
    """
    channels = queues.split(",") if isinstance(queues, str) else queues
    worker = Worker(
        WorkerConfig(
            database=settings().database,
            channels=channels or None,
            threads=max(concurrency, 1),
            grace=timedelta(seconds=shutdown_timeout),
        )
    )
    worker.hostname = default_nodename()  # type: ignore[attr-defined]
    thread = threading.Thread(target=worker.run, name="celery worker", daemon=True)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(shutdown_timeout + 5)
