"""Events become messages by subscriptions, and a worker runs them.

per_s           events a second: from before the first is published until the last message is
                settled, by the database's clock. One `runworker`, idle at first, gives them
                positions, makes a message of each for one subscription, and runs a task that looks
                at the event; they are published a thousand in a transaction meanwhile
publish_per_s   how fast they were published
match_s         the dispatch of 10 000 events with 4 000 subscriptions: half of them of one topic
                and an equality, a quarter of a pattern, an equality and a comparison, an eighth of
                one topic each, an eighth of a pattern each. From before the first step until the
                last is committed, with all messages that come of it, without a worker
messages        how many these are
"""

from random import Random
from time import perf_counter

from pgqueue import publish_many
from pgqueue.database.sql_files import load
from pgqueue.engine import dispatch
from pgqueue.engine.sequence import advance
from pgqueue.engine.values import Connection
from pgqueue.events import subscriptions
from pgqueue.models import Subscription
from tests.benchmarks.harness import messages, worker
from tests.benchmarks.harness.draining import clock, settled
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.session import ask, session, settle_down
from tests.benchmarks.harness.tasks import look_at

SIZES = (100_000,)
SQL = load(__name__)
TOGETHER = 1000
SUBSCRIPTIONS, EVENTS = 4000, 10_000
TOPICS = 500
CUSTOMERS = 10_000


def measure(*, messages: int, rounds: int) -> Report:
    """Publish, dispatch and run; and only dispatch, for many subscriptions."""
    return repeat("subscriptions", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    per_s, publish_per_s = _pipeline(count)
    match_s, stored = _match(min(SUBSCRIPTIONS, count), min(EVENTS, count))
    return Round(
        figures={
            "per_s": per_s,
            "publish_per_s": publish_per_s,
            "match_s": match_s,
            "messages": stored,
        },
        ratios={},
    )


def _pipeline(count: int) -> tuple[float, float]:
    _empty()
    subscriptions.create("all", look_at, topics="order.*")
    with worker.running() as running:
        running.wait_until(lambda: bool(ask(SQL["follows"])[0]))
        running.wait_until(worker.is_idle)
        began_at = clock()
        for first in range(0, count, TOGETHER):
            numbers = range(first, min(first + TOGETHER, count))
            publish_many(("order.paid", {"id": n, "total": n % 500}) for n in numbers)
        published_at = clock()
        settled_at = settled(running, count)
    publishing = (published_at - began_at).total_seconds()
    return count / (settled_at - began_at).total_seconds(), count / publishing


def _match(wanted: int, count: int) -> tuple[float, int]:
    _empty()
    random = Random(1)
    Subscription.objects.bulk_create(_subscriptions(wanted, random))
    connection = session()
    _dispatch(connection)
    connection.execute("VACUUM (ANALYZE) pgqueue_subscription")
    publish_many(
        (
            f"topic.{random.randrange(TOPICS)}.made" if n % 2 else "order.paid",
            {"customer": random.randrange(CUSTOMERS), "total": random.randrange(1000)},
        )
        for n in range(count)
    )
    advance(connection)
    settle_down()
    began = perf_counter()
    stored = _dispatch(connection)
    return perf_counter() - began, stored


def _dispatch(connection: Connection) -> int:
    stored = 0
    while True:
        with connection.transaction():
            step = dispatch.step(connection)
        stored += step.messages
        if step.is_last:
            return stored


def _subscriptions(count: int, random: Random) -> list[Subscription]:
    made = []
    for n in range(count):
        customer = random.randrange(CUSTOMERS)
        topics, where = {
            0: (["order.paid"], {"customer": customer}),
            1: (["order.*"], {"customer": customer, "total__gte": 500}),
            2: (["order.paid"], {"customer": customer}),
            3: ([f"topic.{n % TOPICS}.made" if n % 8 == 3 else f"topic.{n % TOPICS}.*"], {}),
        }[n % 4]
        row = Subscription(name=f"s{n}", task=look_at.name, topics=topics, where=where, position=0)
        row.compile()
        made.append(row)
    return made


def _empty() -> None:
    session().execute(SQL["empty"])
    messages.empty()
