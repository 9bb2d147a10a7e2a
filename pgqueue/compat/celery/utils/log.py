"""Loggers of tasks. `pgqueue.logs.RunFilter` adds the task and the message to their records."""

import logging

from pgqueue.compat.celery import absent


def get_task_logger(name: str) -> logging.Logger:
    """Return the logger of this name. LOGGING configures it like other loggers."""
    return get_logger(name)


def get_logger(name: str) -> logging.Logger:
    """Return the logger of this name."""
    return logging.getLogger(name)


__getattr__ = absent.names_of(__name__)
