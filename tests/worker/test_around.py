"""Context managers that surround each run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.core.management import call_command

from pgqueue import TaskContext
from pgqueue.models import History, Message
from pgqueue.tasks import run_middleware, task

pytestmark = pytest.mark.django_db(transaction=True)

span: ContextVar[str] = ContextVar("span", default="none")


@task
def read_span() -> str:
    return span.get()


@task
async def read_span_async() -> list[str]:
    return [span.get(), await asyncio.create_task(_read_later())]


async def _read_later() -> str:
    await asyncio.sleep(0)
    return span.get()


@task(max_attempts=1)
def fail_inside() -> None:
    raise ValueError("from the task")


@pytest.fixture
def registered() -> Iterator[Any]:
    """Return a function that registers a context manager until the test ends."""
    managers: list[Any] = []

    def register(manager: Any) -> None:
        managers.append(run_middleware.around_runs(manager))

    yield register
    for each in managers:
        run_middleware.remove(each)


def drain() -> None:
    call_command("runworker", "--drain", verbosity=0)


@contextmanager
def spanning(context: TaskContext) -> Iterator[None]:
    token = span.set(f"{context.task.name.rpartition('.')[2]} {context.attempt}")
    try:
        yield
    finally:
        span.reset(token)  # fails in another context than that of set()


class TestAContextManager:
    @pytest.mark.parametrize("atomic", [False, True])
    def test_surrounds_the_function_in_its_thread(self, registered: Any, atomic: bool) -> None:
        registered(spanning)
        result = read_span.using(atomic=atomic).enqueue()

        drain()

        result.refresh()
        assert result.return_value == "read_span 1"

    @pytest.mark.parametrize("options", [[], ["--async", "4"]], ids=["thread", "event loop"])
    def test_surrounds_a_coroutine_and_the_tasks_that_it_creates(
        self, registered: Any, options: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        registered(spanning)
        results = [read_span_async.enqueue() for _ in range(3)]

        call_command("runworker", "--drain", *options, verbosity=0)

        for each in results:
            each.refresh()
            assert each.return_value == ["read_span_async 1"] * 2
        assert "failed" not in caplog.text

    def test_sees_the_error_and_cannot_suppress_it(self, registered: Any) -> None:
        seen: list[str] = []

        @contextmanager
        def swallowing(context: TaskContext) -> Iterator[None]:
            try:
                yield
            except ValueError as error:
                seen.append(str(error))

        registered(swallowing)
        fail_inside.enqueue()

        drain()

        assert seen == ["from the task"]
        assert Message.objects.get().state == "dead"

    def test_is_inside_of_those_registered_before_it(self, registered: Any) -> None:
        order: list[str] = []

        def noting(name: str) -> Any:
            @contextmanager
            def manager(context: TaskContext) -> Iterator[None]:
                order.append(f"enter {name}")
                yield
                order.append(f"exit {name}")

            return manager

        registered(noting("first"))
        registered(noting("second"))
        read_span.enqueue()

        drain()

        assert order == ["enter first", "enter second", "exit second", "exit first"]

    @pytest.mark.parametrize("when", ["made", "entered", "exited"])
    def test_that_fails_is_logged_and_changes_nothing(
        self, registered: Any, when: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def failing(context: TaskContext) -> Any:
            if when == "made":
                raise RuntimeError("broken manager")

            @contextmanager
            def manager() -> Iterator[None]:
                if when == "entered":
                    raise RuntimeError("broken manager")
                yield
                raise RuntimeError("broken manager")

            return manager()

        registered(failing)
        registered(spanning)
        result = read_span.enqueue()

        drain()

        result.refresh()
        assert result.return_value == "read_span 1"
        assert "broken manager" in caplog.text
        assert History.objects.count() == 1
