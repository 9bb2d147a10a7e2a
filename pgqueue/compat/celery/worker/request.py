"""The class of requests, under the name of Celery's module."""

from pgqueue.compat.celery.request import Request

__all__ = ["Request"]
