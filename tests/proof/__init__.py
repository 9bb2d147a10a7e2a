"""A proof by history: everybody writes down what they saw, and a checker decides afterwards.

`python -m tests.proof --minutes 10` drives a server, workers, producers, publishers and readers,
while faults happen. Each process writes a log of its operations (`operations`). At the end the
tables are dumped (`dump`). The checker (`checker`) reads only the log and the dump: it imports
nothing of pgqueue. `docs/proof.md` explains the rules and the report.

Servers, proxies and faults come from `tests/chaos`.
"""
