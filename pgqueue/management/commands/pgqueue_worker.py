"""`runworker` under another name, if another app has a command of that name."""

from pgqueue.management.commands.runworker import Command

__all__ = ["Command"]
