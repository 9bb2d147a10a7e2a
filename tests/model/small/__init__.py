"""Small models whose states are all visited: every interleaving and every crash, for few messages.

A state is a frozen value, and a transition is one statement or one commit. `governed` has bells,
the router and the governed claim; `signals` has waits and signals. Each names its invariants as the
code does, and has switches that plant faults. `docs/proof.md` says why the search is our own.
"""
