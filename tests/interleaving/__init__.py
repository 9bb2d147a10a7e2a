"""The statements of several sessions, interleaved by a seed, on a real PostgreSQL.

A session does operations of the engine, such as a claim or a settle. Before each statement it waits
for its turn, so one statement runs at a time, or waits for a lock, which the server tells. When all
have ended, the rest is run to its end, and promises are checked on the tables.

`make interleave MINUTES=60` tries one seed after another; a failure is shrunk, and printed as a
text that `SCHEDULE=…` repeats. `docs/proof.md` has the operations and the promises.
"""
