"""The verbs that change a message's state. No other code changes it.

Each verb is a function on a psycopg connection, in a file with its SQL beside it. The caller
decides whether the verb is a transaction of its own or part of the caller's transaction.
"""
