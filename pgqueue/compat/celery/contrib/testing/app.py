"""An app for a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pgqueue.compat.celery import current
from pgqueue.compat.celery.app import Celery


def TestApp(
    name: str | None = None,
    config: Any = None,
    enable_logging: bool = False,
    set_as_current: bool = False,
    log: Any = None,
    backend: Any = None,
    broker: Any = None,
    **kwargs: Any,
) -> Celery:
    """Return an app with these settings. A broker and a backend have no effect."""
    app = Celery(name or "celery.tests", set_as_current=set_as_current, **kwargs)
    app.conf.update(config or {})
    return app


@contextmanager
def setup_default_app(app: Celery, use_trap: bool = False) -> Iterator[None]:
    """Make an app the current app inside this block."""
    known = list(current.apps)
    app.set_current()
    try:
        yield
    finally:
        current.apps[:] = known
