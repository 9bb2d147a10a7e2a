"""Figures for Prometheus: of the whole queue in a view, and of a worker on its port."""

from pgqueue.metrics.views import view

__all__ = ["view"]
