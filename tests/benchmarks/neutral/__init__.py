"""The neutral benchmark's scenarios on this machine: ours and two other queues, by its protocol.

    python -m tests.benchmarks.neutral [SYSTEM …] [--minutes 0.8] [--write]

The benchmark is github.com/hardbyte/postgresql-job-queue-benchmarking; its author owns awa.
Each queue has a server of its own, one after the other, with the settings of that benchmark. A
producer keeps a rate by the clock. Each phase lasts for so many minutes.

- clean: nothing else happens.
- idle: one transaction is open and idle. It keeps dead rows from being removed.
- readers: four transactions scan the first of the queue's tables, again and again.
- chaos: two backends a second are terminated. Then the server restarts. Then the worker is killed
  and started again. Each of the three takes a third of the phase, with the rest after it.

A phase has these figures.

- done_per_s: ended runs a second; the median of the samples.
- p99_ms: from the enqueue to the start, of 30 s; the median of the samples.
- depth: messages that wait; the most of the samples.
- dead: dead rows of all tables, at the end.

`make bench-neutral` runs all, in the virtual environment of the peers, and writes the tables of
RESULTS.md and docs/benchmarks.md. `pgqueue_bench` is the folder for that repository. The others
here are adapters of our own, by the same protocol.
"""

from tests.benchmarks.harness.report import Report


def lines(report: Report) -> list[str]:
    """Return the report's section of RESULTS.md, as `harness.results` asks for it."""
    from tests.benchmarks.neutral import table

    return table.lines(report)
