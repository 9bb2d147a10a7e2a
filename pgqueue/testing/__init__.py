"""Run messages, and check enqueued messages, in tests: docs/guide/testing.md.

The functions use Django's connection and the thread of the test. So they work inside the
transaction of a TestCase, which is never committed. A pytest plugin has fixtures with the same
names.
"""

from pgqueue.testing.assertions import assert_enqueued, assert_not_enqueued
from pgqueue.testing.published import assert_not_published, assert_published
from pgqueue.testing.replaying import Replayed, replay
from pgqueue.testing.running import immediate, run_all
from pgqueue.testing.time import advance

__all__ = [
    "Replayed",
    "advance",
    "assert_enqueued",
    "assert_not_enqueued",
    "assert_not_published",
    "assert_published",
    "immediate",
    "replay",
    "run_all",
]
