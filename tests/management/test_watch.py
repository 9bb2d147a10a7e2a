"""`manage.py pgqueue_watch`: the view is driven by keys, and asks the real database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future
from time import monotonic
from typing import Any
from unittest.mock import patch

import psycopg
import pytest
from django.core.management import CommandError
from django.db import OperationalError, connections
from textual.pilot import Pilot
from textual.widgets import Static

from pgqueue.management import snapshot
from pgqueue.management.snapshot import WatchSnapshot
from pgqueue.management.watch.app import LiveTable, Story, WatchApp
from pgqueue.management.watch.source import SnapshotSource
from pgqueue.models import Channel as Row
from tests.eventually import eventually
from tests.factories import enqueue, insert, register, run
from tests.management.calling import call
from tests.processes import manage

pytestmark = pytest.mark.django_db(transaction=True)

ERROR = '[{"class": "shop.tasks.ForkliftStuck", "message": "It is free again soon."}]'
Steps = Callable[[Pilot[None], WatchApp], Awaitable[None]]


@pytest.fixture
def connection(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    """A session beside that of the view."""
    parameters = connections["default"].get_connection_params()
    with psycopg.connect(**parameters, autocommit=True) as connection:
        yield connection


@pytest.fixture
def source(transactional_db: None) -> Iterator[SnapshotSource]:
    source = SnapshotSource("default", "hour")
    yield source
    source.close()


def watched(source: SnapshotSource, steps: Steps) -> None:
    """Open the view without a terminal, and take steps in it."""

    async def watch() -> None:
        # Longer than a look takes: the pilot waits until nothing is done.
        app = WatchApp(source, every=0.3)
        async with app.run_test(size=(160, 50)) as pilot:
            await until(pilot, lambda: app.seen is not None)
            await steps(pilot, app)

    asyncio.run(watch())


async def until(pilot: Pilot[None], fact: Callable[[], Any]) -> None:
    """Wait for a fact, while the view goes on."""
    latest = monotonic() + 10
    while not fact():
        assert monotonic() < latest
        await pilot.pause(0.01)


def names(table: LiveTable) -> list[str]:
    return [line[0] for line in table.shown]


def state(app: WatchApp) -> str:
    return str(app.query_one("#state", Static).render())


def test_it_shows_channels_workers_and_dead_letters_and_goes_on(
    connection: psycopg.Connection[Any], source: SnapshotSource
) -> None:
    enqueue(connection, 2, channel="mail")
    [claim] = run(connection, worker_id=register(connection))
    insert(connection, channel="[/b]", state="dead", errors=ERROR, claimed_at="2026-01-02T00:00Z")

    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        assert names(app.table("channels")) == ["[/b]", "default", "mail"]
        [worker] = app.table("workers").shown
        assert worker[0] == "somewhere:1"
        assert f"tests.task #{claim.id}" in worker[3]
        assert names(app.table("dead")) == ["shop.tasks.ForkliftStuck"]
        assert state(app).endswith(", 1 worker")

        await asyncio.to_thread(enqueue, connection, 3, channel="mail")
        await until(pilot, lambda: app.table("channels").shown[2][1] == "5")

    watched(source, steps)


def test_keys_sort_and_filter(connection: psycopg.Connection[Any], source: SnapshotSource) -> None:
    for number, channel in enumerate("abc"):
        enqueue(connection, number + 1, channel=channel)

    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        table = app.table("channels")
        await pilot.press("down")
        assert table.current is not None
        assert table.current[0] == "b"

        await pilot.press("s", "s")
        assert names(table) == ["c", "b", "a"]
        assert table.current[0] == "b"
        looked = app.seen
        await until(pilot, lambda: app.seen is not looked)
        assert names(table) == ["c", "b", "a"]

        await pilot.press("slash", "c")
        await until(pilot, lambda: names(table) == ["c"])
        await pilot.press("escape")
        await until(pilot, lambda: len(names(table)) == 3)

    watched(source, steps)


def test_a_key_pauses_the_channel_under_the_cursor_and_resumes_it(
    connection: psycopg.Connection[Any], source: SnapshotSource
) -> None:
    enqueue(connection, channel="mail")
    enqueue(connection, channel="stock")

    def paused() -> list[Any]:
        return connection.execute("SELECT name FROM pgqueue_channel WHERE paused").fetchall()

    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        await pilot.press("down", "p")
        await until(pilot, lambda: app.table("channels").shown[1][-1] == "paused")
        assert paused() == [("stock",)]
        await pilot.press("p")
        await until(pilot, lambda: app.table("channels").shown[1][-1] == "")
        assert paused() == []

    watched(source, steps)
    assert Row.objects.count() == 1


def test_a_message_is_opened_and_closed(
    connection: psycopg.Connection[Any], source: SnapshotSource
) -> None:
    [claim] = run(connection, worker_id=register(connection))
    dead = insert(connection, state="dead", errors=ERROR, claimed_at="2026-01-02T00:00Z")

    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        for name, id in (("dead", dead), ("workers", claim.id)):
            app.table(name).focus()
            await pilot.press("enter" if name == "dead" else "o")
            await until(pilot, lambda: isinstance(app.screen, Story))
            assert isinstance(app.screen, Story)
            assert app.screen.lines[0].split() == ["id", str(id)]
            await pilot.press("escape")
            await until(pilot, lambda: not isinstance(app.screen, Story))
        app.table("channels").focus()
        await pilot.press("enter")
        assert not isinstance(app.screen, Story)

    watched(source, steps)


def test_it_says_that_the_database_is_lost_and_finds_it_again(
    connection: psycopg.Connection[Any], source: SnapshotSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("the server is on its way")

    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        monkeypatch.setattr(snapshot, "look", fail)
        await until(pilot, lambda: "the server is on its way" in state(app))
        assert names(app.table("channels")) == ["mail"]
        monkeypatch.undo()
        await until(pilot, lambda: state(app).startswith("default at"))

        before = await asyncio.wrap_future(source.ask(_pid))
        connection.execute("SELECT pg_terminate_backend(%s, 5000)", [before])
        await until(pilot, lambda: state(app).startswith("default at"))
        enqueue(connection, channel="new")
        await until(pilot, lambda: "new" in names(app.table("channels")))
        assert await asyncio.wrap_future(source.ask(_pid)) != before

    enqueue(connection, channel="mail")
    watched(source, steps)


def test_an_answer_that_comes_after_the_view_was_closed_is_nobodys(source: SnapshotSource) -> None:
    answers: list[Future[WatchSnapshot]] = []
    closed = []

    class Late(SnapshotSource):
        def look(self) -> Future[WatchSnapshot]:
            answers.append(Future())
            return answers[-1]

    class Closing(WatchApp):
        async def _close_all(self) -> None:
            await super()._close_all()
            answers[-1].set_result(seen)
            await asyncio.sleep(0.01)
            closed.append(self)

    async def watch() -> None:
        async with Closing(late, every=0.01).run_test() as pilot:
            await until(pilot, lambda: answers)

    seen = source.look().result()
    late = Late("default", "hour")
    asyncio.run(watch())
    late.close()
    assert closed


def _pid() -> int:
    return int(connections["default"].connection.info.backend_pid)


@pytest.mark.new_sessions
def test_it_has_one_connection_which_is_closed_in_the_end(
    connection: psycopg.Connection[Any], source: SnapshotSource
) -> None:
    async def steps(pilot: Pilot[None], app: WatchApp) -> None:
        pids = set()
        for _ in range(3):
            pids.add(await asyncio.wrap_future(source.ask(_pid)))
            await asyncio.wrap_future(source.look())
        assert len(pids) == 1
        await pilot.press("q")
        source.close()
        eventually(
            lambda: (
                not connection.execute(
                    "SELECT FROM pg_stat_activity WHERE pid = ANY (%s)", [list(pids)]
                ).fetchall()
            )
        )

    watched(source, steps)


def test_without_textual_it_names_the_extra(db: None) -> None:
    missing = {"textual": None, "textual.app": None, "pgqueue.management.watch.app": None}

    with (
        patch.dict(sys.modules, missing),
        pytest.raises(CommandError, match=r"pip install 'pgqueue\[watch\]'"),
    ):
        call("pgqueue_watch")


def test_without_a_terminal_it_says_what_needs_none() -> None:
    done = manage("pgqueue_watch")

    assert (done.returncode, done.stdout) == (1, "")
    assert "pgqueue_watch needs a terminal; pgqueue_stats needs none." in done.stderr
