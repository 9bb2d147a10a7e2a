from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TypeVar

import pytest

from tests.chaos.harness.logstage import LogStage
from tests.chaos.harness.migrated import migrated
from tests.chaos.harness.server import Server, home
from tests.chaos.harness.stage import SEED, Recovery, Stage

S = TypeVar("S", bound=Stage)

recoveries: list[Recovery] = []
_numbers = count()


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        # One scenario at a time: they share the template, and measure how long a recovery takes.
        item.add_marker(pytest.mark.xdist_group("chaos"))
        if not item.get_closest_marker("chaos"):
            item.add_marker(pytest.mark.slow)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(240))


@pytest.fixture(scope="session")
def template() -> Iterator[Server]:
    """A server with migrated tables, stopped: to be copied."""
    with migrated("template") as server:
        yield server


@pytest.fixture
def server(template: Server) -> Iterator[Server]:
    """A server of the test's own, not started yet."""
    with home(str(next(_numbers))) as folder:
        server = template.copy_to(folder)
        try:
            yield server
        finally:
            server.stop("immediate")


@pytest.fixture
def stage(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A scenario on a server of its own, which runs; its books are closed by `stage.end()`."""
    server.start()
    yield from play(Stage(server, tmp_path, request.node.name))


@pytest.fixture
def log_stage(server: Server, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LogStage]:
    """The same for the event log: its books are closed by `log_stage.end_log()`."""
    server.start()
    yield from play(LogStage(server, tmp_path, request.node.name))


def play(stage: S) -> Iterator[S]:
    """Lend a scenario to a test, and close it."""
    try:
        yield stage
    finally:
        stage.close()
        stage.show_logs()
        if stage.recovery.came_to:
            recoveries.append(stage.recovery)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not recoveries:
        return
    terminalreporter.section(
        "chaos: seconds until the next settle (again: until all that the killed had ran again); "
        f"CHAOS_SEED={SEED}"
    )
    for each in recoveries:
        times = " ".join(f"{seconds:.2f}" for seconds in each.seconds) or "-"
        if each.again:
            times += f" (again: {' '.join(f'{seconds:.2f}' for seconds in each.again)})"
        terminalreporter.line(f"{each.scenario}: {times}; {each.came_to}")
