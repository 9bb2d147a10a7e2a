from datetime import timedelta

from pgqueue.engine import publish, readers, run_logs, staged, wait, workers
from pgqueue.engine.values import Connection

EVERY = timedelta(hours=1)
SILENT_FOR = timedelta(days=1)
SOON = timedelta(seconds=1)


class Forget:
    """Remove rows that dead processes left.

    Of workers and readers of the log after a day, of waits that are over, and what Spark staged and
    never committed. Also the log lines of messages that are gone, and the locks of publishers with
    conditions after a day.
    """

    name = "forget"

    def __init__(self) -> None:
        self.did = {
            "workers": 0,
            "readers": 0,
            "waiters": 0,
            "staged": 0,
            "run_logs": 0,
            "append_locks": 0,
        }
        self._walked: int | None = None

    def may_run(self, answered_for: timedelta) -> bool:
        """Any process may."""
        return True

    def run(self, connection: Connection) -> timedelta:
        """Remove them."""
        if self._walked is None:
            # Anywhere: a command does one stretch, and would always do the first.
            self._walked = run_logs.somewhere(connection)
        run_lines, upto = run_logs.forget(connection, after=self._walked)
        self._walked = upto or 0
        self.did = {
            "workers": workers.forget(connection, silent_for=SILENT_FOR),
            "readers": readers.forget(connection, silent_for=SILENT_FOR),
            "waiters": wait.forget(connection),
            "staged": staged.forget(connection),
            "run_logs": run_lines,
            "append_locks": publish.forget_locks(connection, unused_for=SILENT_FOR),
        }
        if upto is not None:
            return SOON
        return SOON if self.did["staged"] == staged.FORGOTTEN else EVERY
