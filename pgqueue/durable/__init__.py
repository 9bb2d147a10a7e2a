"""Durable tasks: finished steps are not repeated, and no worker is held by a wait."""

from pgqueue.durable import cleaning as cleaning
from pgqueue.durable.context import DurableContext
from pgqueue.durable.waiting import Signal
from pgqueue.tasks.signalling import asignal, signal

__all__ = ["DurableContext", "Signal", "asignal", "signal"]
