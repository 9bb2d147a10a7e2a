"""What runs tasks: one process, or a supervisor of several.

    Supervisor ──▶ child ──▶ Worker, the life of one process
                               Heartbeat · Duties · Watchdog
                               Pipeline: the way of a message

    Fetcher ──▶ Buffer ──▶ Threads, or an EventLoop ──▶ Settler
      │ Ear                  │ Runner: an Outcome
    Claimer                  │ Isolation, Timeouts

A message moves forwards only: each part hands it to the next and never asks back.
"""
