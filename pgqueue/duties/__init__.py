"""Recurring work. A worker or a consumer that finds a duty due does it, under the lock of its row.

`base` says what a duty is, `run` does one, `all` lists them, and each has a file of its own.
`service` does them in a thread, `inline` between two claims, `maintain` each once for a command.
"""
