"""Decide from a log of operations and a dump of tables whether each promise held.

Nothing here imports pgqueue, Django or a driver of PostgreSQL: the checker knows promises, and no
code. Each rule is a function that takes an `Account` and yields an `Anomaly` for each violation.
"""
