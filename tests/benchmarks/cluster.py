"""Two workers on a Spark cluster of two executors, and two processes: tasks that compute for 50 ms.

cluster_per_s         `runworker --executor spark --master local-cluster[2,1,1024] --workers 2`
processes_per_s       `runworker --processes 2`; each with one thread
cluster_of_processes  the first by the second

Both are warm, as `harness/cluster.py` says.
"""

from tests.benchmarks.harness.cluster import cluster_of_processes
from tests.benchmarks.harness.report import Report, repeat

SIZES = (800,)


def measure(*, messages: int, rounds: int) -> Report:
    """Compare workers on executors with processes."""
    return repeat("cluster", cluster_of_processes, messages=messages, rounds=rounds)
