"""Faults that brought down other queues, a file for each. `tests/chaos` has servers of its own.

`docs/proof.md` lists the systems and the incidents.
"""
