"""`runworker`, where another app owns that name."""

from pgqueue.management.commands.runworker import Command

__all__ = ["Command"]
