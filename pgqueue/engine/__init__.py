"""The verbs that change a message's state, and no other code does.

Each is a function on a psycopg connection, in a file with its SQL beside it. Whether it
is a transaction of its own or joins the caller's is the caller's to say.
"""
