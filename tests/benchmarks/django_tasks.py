"""Tasks of django.tasks, on pgqueue's backend and on others': enqueued one by one, and drained.

ours_…               pgqueue.backend.PostgresBackend, run by `runworker`
own_…                a task of pgqueue's own, run by `runworker`
tasks_db_…           django-tasks-db, run by `db_worker`: one task at a time
ox_…                 django-ox (Python ≥ 3.12), run by `ox_worker`, with as many threads as ours
…_enqueue_per_s      `task.enqueue()`, a commit each; one client
…_drain_per_s        tasks that do nothing, by one worker process, from the first start to the
                     last end. The others get a fiftieth of the messages: they take as long
…_logging_…          the same with two lines a task for the log, as Django's logging has them by
                     default; all else without: they take longer than these tasks
…_connecting_…       the same with CONN_MAX_AGE 0, Django's default; all else with connections
                     that persist, which is better for everyone
drain_of_django_ox   ours_drain_per_s ÷ ox_drain_per_s
drain_of_django_tasks_db, enqueue_of_django_tasks_db, of_own_drain
"""

from tests.benchmarks.harness import backends
from tests.benchmarks.harness.report import Report, Round, repeat

SIZES = (100_000,)
SHARE = 50
"""Of so many messages, those who are slower get one."""


def measure(*, messages: int, rounds: int) -> Report:
    """Compare backends."""
    return repeat("django_tasks", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    few = max(count // SHARE, 10)
    others = backends.others()
    figures = {
        "ours_enqueue_per_s": backends.enqueue_ours(few),
        "tasks_db_enqueue_per_s": others["tasks_db"].enqueue(few),
        "own_drain_per_s": backends.drain_ours(count, task="nothing_on_our_own"),
        "ours_drain_per_s": backends.drain_ours(count),
        **{f"{name}_drain_per_s": peer.drain(few) for name, peer in others.items()},
    }
    with backends.told(TASKS_LOG_LEVEL="INFO"):
        figures["ours_logging_drain_per_s"] = backends.drain_ours(count)
    with backends.told(CONN_MAX_AGE="0"):
        figures["ours_connecting_drain_per_s"] = backends.drain_ours(count)
        for name, peer in others.items():
            figures[f"{name}_connecting_drain_per_s"] = peer.drain(few)
    ours = figures["ours_drain_per_s"]
    return Round(
        figures=figures,
        ratios={
            "enqueue_of_django_tasks_db": figures["ours_enqueue_per_s"]
            / figures["tasks_db_enqueue_per_s"],
            "of_own_drain": ours / figures["own_drain_per_s"],
            **{f"drain_of_django_{name}": ours / figures[f"{name}_drain_per_s"] for name in others},
        },
    )
