"""Names of Celery's result backends, for packages that compare with them. No backend exists."""

from pgqueue.compat.celery.request import running_task as get_current_task


class BaseBackend:
    """A result backend."""


class Backend(BaseBackend):
    """A result backend."""


class BaseDictBackend(BaseBackend):
    """A result backend that keeps dicts."""


class KeyValueStoreBackend(BaseBackend):
    """A result backend that keeps values by keys."""


class DisabledBackend(BaseBackend):
    """The backend of an app without results. Pgqueue always keeps results."""


__all__ = [
    "Backend",
    "BaseBackend",
    "BaseDictBackend",
    "DisabledBackend",
    "KeyValueStoreBackend",
    "get_current_task",
]
