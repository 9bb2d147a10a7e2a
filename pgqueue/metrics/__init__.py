"""Figures of the whole queue for Prometheus, by a view."""

from pgqueue.metrics.views import view

__all__ = ["view"]
