"""The verbs that change a message's state. No other code changes it.

Each verb is a function on a psycopg connection, in a file with its SQL beside it. The caller
decides whether the verb is a transaction of its own or part of the caller's transaction.

Each statement on a claimed message is fenced by the message's `id`, `attempt`, `worker_id` and
`state = 'running'`: a worker that was cut off for longer than its lease must change nothing.
Several rows are locked in the order of their ids, or are skipped where they are locked: two
transactions that wait for each other's rows in different orders deadlock.
"""
