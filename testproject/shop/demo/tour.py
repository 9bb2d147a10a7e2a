from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection

from testproject.shop.demo import SKU_PREFIX, traces
from testproject.shop.demo.baskets import Basket, fill_baskets
from testproject.shop.demo.complaint import Complaint, questions_repeated
from testproject.shop.demo.display import Display
from testproject.shop.demo.ledger import FOLLOW_UPS, Ledger, audit
from testproject.shop.demo.mailserver import MailServer
from testproject.shop.demo.model import HELD, Model
from testproject.shop.demo.producers import Producers
from testproject.shop.demo.receiver import Receiver
from testproject.shop.demo.workers import Workers
from testproject.shop.reports import report_sales

LOOK_EVERY = timedelta(seconds=0.1)
STALLED_AFTER = timedelta(seconds=60)
LOCK = 0x64656D6F  # "demo"


class DemoIsRunning(Exception):
    """Another demo is running on this database."""

    def __str__(self) -> str:
        return self.__doc__ or ""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a demo is.

    Args:
        producers: threads that place the orders.
        seed: what the orders are made up from.
        verbosity: of the workers, whose log goes to stderr.
    """

    orders: int
    producers: int
    seed: int
    verbosity: int


def run(plan: Plan) -> Ledger:
    """Place orders, kill the worker half-way, start another, and check the books.

    Raises:
        DemoIsRunning: another one is, on this database.
        WorkerFailed: a worker did, though the demo did not kill it.
    """
    with _alone():
        traces.clear()
        traces.subscribe_anew()
        return _run(fill_baskets(plan.orders, seed=plan.seed), plan)


def _run(baskets: Sequence[Basket], plan: Plan) -> Ledger:
    messages = len(FOLLOW_UPS) * sum(basket.is_paid for basket in baskets)
    head = traces.head()
    with (
        Display(messages=messages) as display,
        MailServer() as mails,
        _partner() as partner,
        Model(holds=True) as model,
        Workers(mails.host, mails.port, model_url=model.url, verbosity=plan.verbosity) as workers,
        Producers(baskets, threads=plan.producers) as producers,
    ):
        watch = Watch(show=display.show, checks=[producers.check, workers.check])
        began = time.monotonic()
        producers.start()
        first = workers.start()
        watch.until(lambda ended: ended > 0)
        complaint = Complaint.made()
        display.say("A customer complains. An agent asks a model, which thinks.")
        watch.until(lambda ended: ended >= messages // 2)
        watch.until(lambda ended: model.asked[HELD] > 0)
        workers.kill()
        model.release()
        second = workers.start()
        display.say(f"Half-way, worker {first} was killed; worker {second} goes on.")
        watch.until(lambda ended: bool(mails.links))
        for link in mails.links[:1]:
            display.say("The agent goes on where it was. The owner agrees, by a mailed link.")
            complaint.agree(link)
        watch.until(lambda ended: producers.are_done() and not traces.is_any_left())
        took = timedelta(seconds=time.monotonic() - began)
        display.say("Night falls: a flow counts what was sold of each product, and mails the sum.")
        report_sales.enqueue("owner@shop.example", skus=SKU_PREFIX)
        watch.until(lambda ended: not traces.is_any_left())
        workers.stop()
        placed = producers.join()
    return audit(
        placed,
        mails.received,
        partner.received,
        mails.reports,
        took,
        after=head,
        refunds_wrong=complaint.refunds_wrong(),
        questions_repeated=questions_repeated(model),
    )


class Watch:
    """Looks on while messages end.

    Args:
        show: is told how many have.
        checks: raise when there is no sense in going on.
    """

    def __init__(
        self, *, show: Callable[[int], None], checks: Sequence[Callable[[], None]]
    ) -> None:
        self._show = show
        self._checks = checks
        self._since = traces.now()

    def until(self, is_reached: Callable[[int], bool]) -> None:
        """Wait until so many have ended, or none does any more: the ledger will tell."""
        before, moved_at = -1, time.monotonic()
        while time.monotonic() - moved_at < STALLED_AFTER.total_seconds():
            ended = traces.ended(self._since)
            self._show(ended)
            if is_reached(ended):
                # More may have ended since it was counted.
                self._show(traces.ended(self._since))
                return
            for check in self._checks:
                check()
            if ended != before:
                before, moved_at = ended, time.monotonic()
            time.sleep(LOOK_EVERY.total_seconds())


@contextmanager
def _partner() -> Iterator[Receiver]:
    """Have a partner to whom orders are posted."""
    with Receiver() as receiver:
        traces.post_to(receiver)
        try:
            yield receiver
        finally:
            traces.post_no_more()


@contextmanager
def _alone() -> Iterator[None]:
    """Keep other demos out: each begins by removing the traces of others."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [LOCK])
        if cursor.fetchone() != (True,):
            raise DemoIsRunning
        try:
            yield
        finally:
            cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
