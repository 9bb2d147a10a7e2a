"""The process that runs tasks.

    Listener ──▶ Fetcher ──▶ Buffer ──▶ Threads ──▶ Settler
                   │                      │ Runner: an Outcome
                Claimer               Heartbeat, Timeouts, Duties

A message moves forwards only: each part hands it to the next and never asks back.
"""

from pgqueue.worker.supervisor import Worker

__all__ = ["Worker"]
