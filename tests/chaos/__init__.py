"""Faults under load, and a ledger afterwards.

Each scenario has a PostgreSQL server of its own, real workers and producers in processes of
their own, and proxies between them where the network is to fail. It ends when everything that
was enqueued has ended; then the books are compared: see `harness.ledger`.

Some of it runs with every `make test`, all of it by `make chaos`. CHAOS_SEED repeats the
choices of a run; CHAOS_POSTGRES=15 takes Debian's server.
"""
