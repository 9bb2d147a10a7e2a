"""Run messages, and look at what was enqueued, in tests: docs/guide/testing.md.

Everything is done on Django's connection and in the thread of the test, so that it works inside the
transaction of a TestCase, which is never committed. pytest gets fixtures of these names.
"""

from pgqueue.testing.assertions import assert_enqueued, assert_not_enqueued
from pgqueue.testing.running import immediate, run_all
from pgqueue.testing.time import advance

__all__ = ["advance", "assert_enqueued", "assert_not_enqueued", "immediate", "run_all"]
