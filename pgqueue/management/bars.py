from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show the progress of a task on a terminal; elsewhere show nothing.

    Args:
        what: the name of the task.

    Returns:
        A function to call with the done amount and the total.
    """
    with progress_bars(what) as (show,):
        yield show


@contextmanager
def progress_bars(*names: str) -> Iterator[list[Callable[[int, int], None]]]:
    """Show the progress of several tasks, one below the other, as `progress_bar` does for one."""
    if not sys.stderr.isatty():
        yield [lambda done, total: None for _ in names]
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
    except ImportError:  # rich comes with an extra
        yield [_counter(name) for name in names]
        print(file=sys.stderr)
        return
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield [_shower(bar, name) for name in names]


def _counter(name: str) -> Callable[[int, int], None]:
    """Return a function that shows a count in the terminal's last line."""

    def show(done: int, total: int) -> None:
        of = f" of {total}" if total else ""
        print(f"\r{name}: {done}{of}", end="", file=sys.stderr, flush=True)

    return show


def _shower(bar: Progress, name: str) -> Callable[[int, int], None]:
    task = bar.add_task(name, total=None)
    return lambda done, total: bar.update(task, completed=done, total=total or None)
