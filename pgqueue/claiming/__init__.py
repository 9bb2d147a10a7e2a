"""Claim messages on a connection that does nothing else, as workers and consumers do.

`free_lanes` and `governed_lanes` plan the requests of a claim and remember the answers; they use no
database. `claimer` sends their requests with the verbs of `engine`. `idle` decides how to wait when
no message is ready, `listener` waits for notifications. `registration` keeps the worker's row
and the ids that it claims under.
"""
