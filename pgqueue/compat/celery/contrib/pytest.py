"""Fixtures of Celery's plugin: `pytest_plugins = ("pgqueue.compat.celery.contrib.pytest",)`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from pgqueue.compat.celery.contrib.testing.app import TestApp, setup_default_app
from pgqueue.compat.celery.contrib.testing.worker import start_worker


@pytest.fixture(scope="session")
def celery_config() -> Mapping[str, Any]:
    """Settings of the tests' app: override it."""
    return {}


@pytest.fixture(scope="session")
def celery_parameters() -> Mapping[str, Any]:
    """Arguments of the tests' app: override it."""
    return {}


@pytest.fixture(scope="session")
def celery_includes() -> Sequence[str]:
    """Modules of tasks that are imported: override it."""
    return ()


@pytest.fixture(scope="session")
def celery_worker_parameters() -> Mapping[str, Any]:
    """Arguments of the worker: override it."""
    return {}


@pytest.fixture(scope="session")
def celery_worker_pool() -> str:
    """Without effect: the worker has threads."""
    return "solo"


@pytest.fixture(scope="session")
def celery_enable_logging() -> bool:
    """Without effect: pytest has the log."""
    return False


@pytest.fixture(scope="session")
def celery_class_tasks() -> Sequence[Any]:
    """Tasks of classes that the app registers: override it."""
    return ()


@pytest.fixture(scope="session")
def celery_session_app(
    celery_config: Any, celery_parameters: Any, celery_includes: Any
) -> Iterator[Any]:
    """An app for all tests."""
    app = TestApp(config=celery_config, **celery_parameters)
    app.conf.update(include=list(celery_includes))
    with setup_default_app(app):
        yield app


@pytest.fixture
def celery_app(celery_config: Any, celery_parameters: Any, celery_includes: Any) -> Iterator[Any]:
    """An app for one test, which is the current one."""
    app = TestApp(config=celery_config, **celery_parameters)
    app.conf.update(include=list(celery_includes))
    with setup_default_app(app):
        yield app


@pytest.fixture
def celery_worker(
    celery_app: Any, celery_class_tasks: Any, celery_worker_parameters: Any, transactional_db: None
) -> Iterator[Any]:
    """A worker for one test, which commits what it stores."""
    for task in celery_class_tasks:
        celery_app.register_task(task)
    with start_worker(celery_app, **celery_worker_parameters) as worker:
        yield worker


@pytest.fixture
def depends_on_current_app(celery_app: Any) -> None:
    """Have the tests' app be the current one."""
