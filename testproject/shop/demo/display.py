"""The demo on a terminal. Everything but the ledger goes to stderr."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from testproject.shop.demo.ledger import Ledger

ROWS = {
    "orders_committed": "Orders committed",
    "orders_rolled_back": "… rolled back",
    "events": "Events of them",
    "events_astray": "… of none, or of an order rolled back",
    "enqueued": "Messages that follow",
    "succeeded": "… succeeded",
    "dead": "… dead",
    "missing": "… missing",
    "retries": "Failures injected, and retried",
    "leases_lost": "Leases lost to the kill",
    "stock_movements": "Stock movements",
    "orders_not_moved_once": "… orders without exactly one",
    "audited": "Entries in the audit trail",
    "not_audited_once": "… missing, or there twice",
    "audited_out_of_order": "… not in the order of the log",
    "mails": "Mails received",
    "orders_unmailed": "… orders without one",
    "mails_of_rolled_back_orders": "… of orders rolled back",
    "posts": "Posts to the partner",
    "orders_unposted": "… orders without one",
    "posts_of_rolled_back_orders": "… of orders rolled back",
    "reports": "Reports of the day's sales mailed",
    "reports_wrong": "… with other sums than the orders have",
    "refunds_wrong": "Refunds that are wrong",
    "questions_repeated": "Questions of the agent that were repeated",
    "per_s": "Messages a second, over all",
    "pickup_p50_ms": "From message to the last start, median in ms",
    "pickup_p99_ms": "… of 99 %, with backlog, lost leases and retries",
}


class Display:
    """A progress bar with room for news above it."""

    def __init__(self, *, messages: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True, highlight=False),
        )
        self._bar = self._progress.add_task("Messages", total=messages)

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def say(self, news: str) -> None:
        """Print a line of news."""
        self._progress.console.print(news)

    def show(self, ended: int) -> None:
        """Move the bar."""
        self._progress.update(self._bar, completed=ended)


def as_text(ledger: Ledger) -> str:
    """Return the ledger as people read it."""
    table = Table(title="The ledger", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    numbers = ledger.as_dict()
    for name, label in ROWS.items():
        table.add_row(label, f"{numbers[name]:,}")
    console = Console()
    with console.capture() as text:
        console.print(table)
    return text.get()
