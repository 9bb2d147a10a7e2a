"""The results of tasks and groups, under the name of Celery's module."""

from pgqueue.compat.celery import absent
from pgqueue.compat.celery.async_result import (
    AsyncResult,
    allow_join_result,
    assert_will_not_block,
)
from pgqueue.compat.celery.eager_result import EagerResult
from pgqueue.compat.celery.group_result import GroupResult, ResultSet, result_from_tuple

__all__ = [
    "AsyncResult",
    "EagerResult",
    "GroupResult",
    "ResultSet",
    "allow_join_result",
    "assert_will_not_block",
    "result_from_tuple",
]


__getattr__ = absent.names_of(__name__)
