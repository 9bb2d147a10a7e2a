"""A standby that falls behind its primary, and takes its place."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import psycopg

from tests.chaos.harness.server import Server, nap
from tests.eventually import eventually
from tests.proof.operations import now

EVERY = 0.02  # seconds
INSERTED = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
REPLAYED = "SELECT (pg_last_wal_replay_lsn() - '0/0')::bigint"
RECEIVERS = "SELECT count(*) FROM pg_stat_wal_receiver"


class Straggler:
    """Knows which commits of the primary a standby has, by the time of their acknowledgement.

    While the standby falls behind, the end of the primary's WAL is noted again and again, each time
    with the time before the question. A commit that was acknowledged before this time is before
    this end.
    """

    def __init__(self, primary: Server, standby: Server) -> None:
        self._primary = primary
        self._standby = standby
        self._ends: list[tuple[float, int]] = []

    def fall_behind(self, seconds: float) -> None:
        """Let the standby have all commits up to now, and no commits of the next seconds."""
        with closing(self._primary.connect(dbname="postgres")) as primary:
            self._note(primary)
            [(_, end)] = self._ends
            eventually(lambda: self._asked(REPLAYED) >= end, what="the standby has replayed it")
            with closing(self._standby.connect(dbname="postgres")) as standby:
                standby.execute("ALTER SYSTEM SET primary_conninfo = ''")
                standby.execute("SELECT pg_reload_conf()")
            eventually(lambda: self._asked(RECEIVERS) == 0, what="it receives nothing any more")
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self._note(primary)
                nap(EVERY)

    def promote(self) -> float:
        """Make it the primary; the old one must be dead.

        Returns:
            The time of the machine's clock before which all acknowledged commits were kept.
        """
        self._standby.promote()
        replayed = self._asked(REPLAYED)
        return max(at for at, end in self._ends if end <= replayed)

    def _note(self, primary: psycopg.Connection[Any]) -> None:
        at = now()
        [(end,)] = primary.execute(INSERTED).fetchall()
        self._ends.append((at, end))

    def _asked(self, question: str) -> int:
        with closing(self._standby.connect(dbname="postgres")) as connection:
            [(answer,)] = connection.execute(question).fetchall()
            return int(answer)
