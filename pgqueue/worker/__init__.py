"""The worker: one process, or a supervisor of several.

    Supervisor ──▶ child ──▶ Worker, the life of one process
                               Shared: the values that its parts share
                               Heartbeat · Duties · Watchdog
                               Pipeline: the path of a message

    Fetcher ──▶ Buffer ──▶ Threads, or an EventLoop ──▶ Settler
      │ Claimer              │ Runner
      │ Listener             │ Quarantine, Timeouts

A message moves forwards only: each part hands it to the next. Wakeups and Shutdown tell an earlier
part, or the main thread, that there is something to do.
"""
