"""An hour of everything at once, with a fault every few seconds: does it become slower?

`python -m tests.chaos.soak --minutes 60` drives a server of its own, workers, producers, a
consumer and an operator; `faults` is what happens to them. The ledger closes the books as in each
scenario, a plot shows what became of speed, sizes and memory, and `verdict` compares the last
tenth of the run with the first.

**What throughput is.** The load is steady, and as much as the workers can take beside the faults:
what they get done in a second is what was enqueued in it, however slow they have become. So every
quarter of a minute the load stands still, and all that is ready ends; then the same burst of
messages of each kind is committed at once, and as fast as can be they are all done (`probe`).
Claims, lanes, transactions and settles are in it, and a table or an index that has grown, or dead
rows that no vacuum could remove, make each of them slower. No sleep is in it that would hide that.

**Why no fault is.** What a fault costs is chance, and a comparison of the chances of two tenths
says nothing: a burst begins when the last fault is over, and every worker serves again. It may
have a snapshot beside it, which is held for a third of the time: that is no chance, since each
tenth has equally much of it. Medians are compared, because a checkpoint or an autovacuum may
fall into a burst.
"""
