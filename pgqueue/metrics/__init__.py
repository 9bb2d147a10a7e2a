"""Figures for Prometheus: of the whole queue by a view, of one worker's process by a port."""

from pgqueue.metrics.views import view

__all__ = ["view"]
