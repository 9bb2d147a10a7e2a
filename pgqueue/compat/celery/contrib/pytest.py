"""Fixtures of Celery's plugin: `pytest_plugins = ("pgqueue.compat.celery.contrib.pytest",)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pgqueue.compat.celery.contrib.testing.app import TestApp, setup_default_app
from pgqueue.compat.celery.contrib.testing.worker import start_worker


@pytest.fixture(scope="session")
def celery_config() -> Mapping[str, Any]:
    """Return settings for the tests' app. Override this fixture."""
    return {}


@pytest.fixture(scope="session")
def celery_parameters() -> Mapping[str, Any]:
    """Return arguments for the tests' app. Override this fixture."""
    return {}


@pytest.fixture(scope="session")
def celery_includes() -> Sequence[str]:
    """Return the modules of tasks to import. Override this fixture."""
    return ()


@pytest.fixture(scope="session")
def celery_worker_parameters() -> Mapping[str, Any]:
    """Return arguments for the worker. Override this fixture."""
    return {}


@pytest.fixture(scope="session")
def celery_worker_pool() -> str:
    """Return "solo", without effect: the worker always has threads."""
    return "solo"


@pytest.fixture(scope="session")
def celery_enable_logging() -> bool:
    """Return False, without effect: pytest captures the log."""
    return False


@pytest.fixture(scope="session")
def celery_class_tasks() -> Sequence[Any]:
    """Return class-based tasks for the app to register. Override this fixture."""
    return ()


@pytest.fixture(scope="session")
def celery_session_app(
    celery_config: Any, celery_parameters: Any, celery_includes: Any
) -> Iterator[Any]:
    """Make an app for all tests, as the current app."""
    app = TestApp(config=celery_config, **celery_parameters)
    app.conf.update(include=list(celery_includes))
    with setup_default_app(app):
        yield app


@pytest.fixture
def celery_app(celery_config: Any, celery_parameters: Any, celery_includes: Any) -> Iterator[Any]:
    """Make an app for one test, as the current app."""
    app = TestApp(config=celery_config, **celery_parameters)
    app.conf.update(include=list(celery_includes))
    with setup_default_app(app):
        yield app


@pytest.fixture
def celery_worker(
    celery_app: Any, celery_class_tasks: Any, celery_worker_parameters: Any, transactional_db: None
) -> Iterator[Any]:
    """Run a worker for one test. The test must commit its messages."""
    for task in celery_class_tasks:
        celery_app.register_task(task)
    with start_worker(celery_app, **celery_worker_parameters) as worker:
        yield worker


@pytest.fixture
def depends_on_current_app(celery_app: Any) -> None:
    """Make the tests' app the current app."""
