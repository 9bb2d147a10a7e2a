"""Events are posted to a webhook on loopback.

per_s           posts a second: from before the first event is published until the last delivery is
                settled, by the database's clock. One `runworker`, idle at first, gives events their
                positions, makes a message of each, signs it, posts it and keeps the answer; they
                are published a thousand in a transaction meanwhile. The endpoint, in a process of
                its own on the same cores, answers at once
posts           how many the endpoint took
"""

from pgqueue import publish_many, webhooks
from pgqueue.database.sql_files import load
from tests.benchmarks.harness import endpoint, messages, worker
from tests.benchmarks.harness.draining import clock, settled
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session

SIZES = (10_000,)
SQL = load("tests.benchmarks.subscriptions")
TOGETHER = 1000


def measure(*, messages: int, rounds: int) -> Report:
    """Publish, and post."""
    return repeat("webhooks", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    session().execute(SQL["empty"])
    messages.empty()
    with endpoint.serving() as served:
        webhooks.create("all", served.url, topics="order.*")
        with worker.running() as running:
            running.wait_until(lambda: bool(ask(SQL["follows"])[0]))
            running.wait_until(worker.is_idle)
            began_at = clock()
            for first in range(0, count, TOGETHER):
                numbers = range(first, min(first + TOGETHER, count))
                publish_many(("order.paid", {"id": n, "total": n % 500}) for n in numbers)
            settled_at = settled(running, count)
        posts, ids = served.taken()
    if ids != count:
        raise RuntimeError(f"{ids} of {count} events were posted.")
    per_s = count / (settled_at - began_at).total_seconds()
    return Round(figures={"per_s": per_s, "posts": posts}, ratios={})
