"""The default number of attempts, also for programs without Django, such as Spark's executors."""

MAX_ATTEMPTS = 20
"""The default number of errors after which a message is dead.

With `Exponential()`, 20 attempts take 66 hours, nearly three days: long enough for an outage, or
for a fault that is deployed on Friday and mended on Monday. Twenty is also Oban's number.
"""
