"""One `runworker` process empties a queue of tasks that insert a row each with Django's ORM.

per_s             messages a second, as in `drain`, by batches of 100 with one bulk insert each
one_by_one_per_s  the same rows, each inserted by a run of its own
of_one_by_one     per_s ÷ one_by_one_per_s
"""

from testproject.shop.models import Product
from tests.benchmarks.harness import messages
from tests.benchmarks.harness.draining import drain
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.tasks import insert_many, insert_one

SIZES = (20_000,)
THREADS = 8


def measure(*, messages: int, rounds: int) -> Report:
    """Compare batches with runs of one message."""
    return repeat("batch", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    one_by_one = _inserted(count, task=insert_one.name)
    batches = _inserted(count, task=insert_many.name)
    return Round(
        figures={"per_s": batches, "one_by_one_per_s": one_by_one},
        ratios={"of_one_by_one": batches / one_by_one},
    )


def _inserted(count: int, *, task: str) -> float:
    """Return the messages a second; each must have inserted its row."""
    Product.objects.all().delete()
    messages.store(count, task=task)
    per_s = drain(count, "--threads", str(THREADS), CONN_MAX_AGE="60").per_s
    if (rows := Product.objects.count()) != count:
        raise RuntimeError(f"{task} inserted {rows} rows for {count} messages.")
    return per_s
