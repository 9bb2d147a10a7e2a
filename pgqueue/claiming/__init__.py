"""Claim on a connection of one's own, as workers and consumers do.

`free_lanes` and `governed_lanes` plan what to ask for and remember the answers; they use no
database. `claimer` does their steps with the verbs of `engine`. `idle` decides how to wait when
nothing is there, `listener` waits for notifications. `registration` keeps the worker's row
and the ids that it claims under.
"""
