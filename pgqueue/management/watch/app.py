"""The live view: four tables, which the user sorts and filters by keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, ClassVar, TypeVar

from django.db import Error
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Input, Label, Static

from pgqueue.exceptions import PGQueueError
from pgqueue.management.columns import short
from pgqueue.management.snapshot import WatchSnapshot
from pgqueue.management.story import as_lines
from pgqueue.management.tables import HEADS, cells
from pgqueue.management.watch.source import SnapshotSource
from pgqueue.values.escaping import on_one_line

EVERY = 1.0
"""Seconds between the end of a read and the next one."""
TITLES = {
    "channels": "Channels",
    "workers": "Workers",
    "tasks": "Runs in the last {}",
    "dead": "Dead letters by error",
}
NEWEST = HEADS["dead"].index("newest")

Line = Sequence[str]
T = TypeVar("T")


class Story(ModalScreen[None]):
    """The screen with all facts about one message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", "Close"),
    ]
    CSS = "Story VerticalScroll { border: round $accent; margin: 1 4; padding: 0 1; }"

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        """Yield the widgets of the screen."""
        with VerticalScroll():
            yield Static("\n".join(self.lines), markup=False)


class LiveTable(DataTable[Text]):
    """A table that keeps its cursor although its lines are replaced each second."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name, cursor_type="row", zebra_stripes=True)
        self.part = name
        self.lines: Sequence[Line] = ()
        self.shown: Sequence[Line] = ()
        self.column: int | None = None
        """The column that sorts the table; None: the order of the read."""

    def on_mount(self) -> None:
        """Add the columns."""
        self.add_columns(*HEADS[self.part])

    def show(self, sought: str) -> None:
        """Show the lines that contain a text."""
        shown = [line for line in self.lines if sought in " ".join(line).lower()]
        if self.column is not None:
            column = self.column
            shown.sort(key=lambda line: _order(line[column]))
        before = self.current
        self.shown = shown
        self.clear()
        for line in shown:
            # Use Text, without markup: a channel may be called "[b]".
            self.add_row(*(Text(short(cell)) for cell in line))
        same = [n for n, line in enumerate(shown) if before and line[0] == before[0]]
        if same:
            exact = [n for n in same if shown[n] == before]
            self.move_cursor(row=(exact or same)[0], scroll=False)

    @property
    def current(self) -> Line | None:
        """The line that the cursor is on."""
        row = self.cursor_row
        return self.shown[row] if 0 <= row < len(self.shown) else None


class WatchApp(App[None]):
    """The live view of a queue.

    Args:
        source: the source of its data.
        every: the seconds between two reads.
    """

    TITLE = "pgqueue"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #state { height: 1; padding: 0 1; }
    #state.lost { background: $error; color: $text; }
    #filter { display: none; }
    #filter.open { display: block; }
    Label { padding: 0 1; text-style: bold; }
    LiveTable { height: auto; min-height: 2; max-height: 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("s", "sort", "Sort by the next column"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("p", "turn", "Pause or resume"),
        Binding("o", "open", "Open a message"),
        Binding("escape", "unfilter", "All", show=False),
    ]

    def __init__(self, source: SnapshotSource, *, every: float = EVERY) -> None:
        super().__init__()
        self.source = source
        self.every = every
        self.seen: WatchSnapshot | None = None
        self.sought = ""

    def compose(self) -> ComposeResult:
        """Yield the widgets of the view."""
        yield Static(id="state", markup=False)
        yield Input(id="filter", placeholder="a channel, a task, an error …")
        with VerticalScroll():
            for name, title in TITLES.items():
                yield Label(title, id=f"title-{name}")
                yield LiveTable(name)
        yield Footer()

    def on_mount(self) -> None:
        """Start to read the queue."""
        self.table("channels").focus()
        self.run_worker(self._look_on(), exit_on_error=True)

    async def _answer(self, asked: Future[T]) -> T:
        """Wait until the database has answered; end the caller if the view was closed meanwhile."""
        try:
            return await asyncio.wrap_future(asked)
        finally:
            if not self.is_running:
                # Nobody sees the answer, and the widgets for it are gone.
                raise asyncio.CancelledError

    async def _look_on(self) -> None:
        """Read the queue again and again; if the database is unreachable, show this and go on."""
        while True:
            try:
                seen = await self._answer(self.source.look())
            except (Error, PGQueueError) as error:
                self._say(f"The database is unusable; trying again: {error}", is_lost=True)
            else:
                self._show(seen)
            await asyncio.sleep(self.every)

    def _show(self, seen: WatchSnapshot) -> None:
        self.seen = seen
        lines = cells(seen)
        for name, title in TITLES.items():
            self.query_one(f"#title-{name}", Label).update(title.format(seen.window))
            self.table(name).lines = lines[name]
        self._filter()
        alive = sum(each.is_alive for each in seen.workers)
        sought = f", with {self.sought!r}" if self.sought else ""
        workers = f"{alive} worker{'' if alive == 1 else 's'}"
        self._say(f"{self.source.alias} at {datetime.now():%H:%M:%S}, {workers}{sought}")

    def _filter(self) -> None:
        for name in TITLES:
            self.table(name).show(self.sought.lower())

    def _say(self, text: str, *, is_lost: bool = False) -> None:
        state = self.query_one("#state", Static)
        state.update(on_one_line(" ".join(text.split())))
        state.set_class(is_lost, "lost")

    def table(self, name: str) -> LiveTable:
        """Return the table of a part."""
        return self.query_one(f"#{name}", LiveTable)

    # --- Keys

    def action_sort(self) -> None:
        """Sort the focused table by its next column; then by the order of the read."""
        if isinstance(self.focused, LiveTable):
            table = self.focused
            following = 0 if table.column is None else table.column + 1
            table.column = following if following < len(HEADS[table.part]) else None
            table.show(self.sought.lower())

    def action_filter(self) -> None:
        """Open the input for a filter."""
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_unfilter(self) -> None:
        """Remove the filter."""
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("open")
        self.table("channels").focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show the lines that contain the text."""
        self.sought = event.value
        self._filter()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go back to the tables."""
        self.table("channels").focus()

    # A worker of textual asks the database, so that a silent server does not block the keys.

    def action_turn(self) -> None:
        """Pause the channel under the cursor, or resume it."""
        if (line := self.table("channels").current) is not None:
            self.run_worker(self._turn(line))

    async def _turn(self, line: Line) -> None:
        is_paused = line[-1] != ""
        try:
            await self._answer(self.source.turn(line[0], is_paused=is_paused))
            self._show(await self._answer(self.source.look()))
        except (Error, PGQueueError) as error:
            self._say(f"{line[0]} was not changed: {error}", is_lost=True)
        else:
            self.notify(f"{line[0]} is {'resumed' if is_paused else 'paused'}.", markup=False)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open a message by Enter, too."""
        self.action_open()

    def action_open(self) -> None:
        """Open a message of the line under the cursor: the newest dead letter, or a running one."""
        table = self.focused
        id = self._message(table) if isinstance(table, LiveTable) else None
        if id is None:
            self.notify("There is no message on this line.")
        else:
            self.run_worker(self._open(id))

    async def _open(self, id: int) -> None:
        try:
            found = await self._answer(self.source.story(id))
        except (Error, PGQueueError) as error:
            self._say(f"Reading message {id} failed: {error}", is_lost=True)
            return
        gone = [f"No message has the id {id} any more."]
        await self.push_screen(Story(gone if found is None else list(as_lines(found))))

    def _message(self, table: LiveTable) -> int | None:
        line = table.current
        if line is None or self.seen is None:
            return None
        if table.part == "dead":
            return int(line[NEWEST])
        if table.part == "workers":
            for each in self.seen.workers:
                if f"{each.host}:{each.pid}" == line[0] and each.running:
                    return each.running[0].id
        return None


def _order(cell: str) -> tuple[Any, ...]:
    """Return the sort key of a cell: numbers before texts, the greatest number first."""
    number = cell.lstrip("~").split(" ")[0]
    try:
        return (0, -float(number), cell)
    except ValueError:
        return (1, 0.0, cell)
