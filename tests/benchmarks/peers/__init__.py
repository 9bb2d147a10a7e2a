"""Other queues and ours, side by side on one machine, each with its best documented settings.

Each round does each of these to all peers in turn. `adapters/` says how each is run, and why.

enqueue_per_s         one by one, committed each, by one client; no worker runs
bulk_per_s            at once, by whatever the peer has for that; no worker runs
clients_per_s         one by one, committed each, by 32 clients: 8 threads of 4 processes, all
                      through the peer's own API; no worker runs
drain_per_s           tasks that do nothing, on 2 cores
compat_drain_per_s    the same, of a task that is declared by pgqueue.compat.celery; ours only
chord_per_s           chords of 1 000 members that do nothing, one after another: each from its call
                      until the result of the task that follows them is there; idle workers
compat_chord_per_s    the same by Celery's words; ours only
nap_drain_per_s       tasks that sleep 5 ms, 50 at once where that can be said
query_drain_per_s     tasks that ask Django's ORM one question; Django's apps only
connecting_…          the same with CONN_MAX_AGE 0, Django's default, which only workers go by: a
                      producer outside of requests keeps its connection. All else with None
full_drain_per_s      tasks that do nothing, where a million finished ones are kept
workflows_per_s       workflows of three durable steps that do nothing; of DBOS and django-absurd
                      nothing else is measured
pickup_p50_ms, …p99   from before `enqueue` until the task has begun; idle, 20 to 200 ms between
lost, stuck, doubled  of messages whose workers were killed with SIGKILL amid a drain, 15 s after
                      others had begun: no effect and no trace; still in the queue; more than
                      one effect. Effects are rows of a ledger that each task commits by itself
                      (ours with its end, `atomic=True`). Leases are 5 s where a peer has them

A drain lasts from the first look that finds a tenth of the tasks done to the one that finds none:
rows, or the lengths of lists in Redis, whatever the peer keeps; looks cost all about the same.
Ratios compare ours with the best of the others in the same round, pickup_p50_of_best_peer like all:
ours ÷ theirs. Run by `make bench-peers`, in a virtual environment of its own.
"""

from tests.benchmarks.harness.report import Report


def lines(report: Report) -> list[str]:
    """Return the report's section of RESULTS.md, as `harness.results` asks for it."""
    from tests.benchmarks.peers import table

    return table.lines(report)
