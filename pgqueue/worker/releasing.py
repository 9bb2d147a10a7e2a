"""Hand messages back whose runs will not end in this process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgqueue import signals
from pgqueue.claiming.run_counts import Tally
from pgqueue.engine import lease, settle
from pgqueue.worker.leases import LeasedMessage, Leases
from pgqueue.worker.main_session import MainSession


class Releaser:
    """Releases leases in the main thread, on its connection.

    Args:
        tally: counts the released runs.
    """

    def __init__(self, session: MainSession, leases: Leases, tally: Tally) -> None:
        self._session = session
        self._leases = leases
        self._tally = tally
        self.released = 0
        """The number of messages that were handed back."""

    def try_to_release(self, leased: Sequence[LeasedMessage]) -> bool:
        """Release messages; return False if the database was away.

        A failed release is retried later.
        """
        try:
            self.release(leased)
        except Exception as error:
            signals.send(signals.service_failed, type(self), service="worker", error=error)
            return False
        return True

    def release(self, leased: Sequence[LeasedMessage]) -> None:
        """Release messages. The fence stops runs that still end.

        A message that another transaction has locked stays leased, and may be released later.

        Raises:
            psycopg.Error: the statement failed.
        """
        if not leased:
            return
        claims = [each.claim for each in leased]
        with self._session.connected() as connection:
            # A run in a transaction has its own row locked.
            if locks := [each.lock for each in leased if each.given_up and each.lock]:
                lease.let_go(connection, locks)
            released = settle.release(connection, claims)
            self.released += len(released)
            self._tally.add_released(
                each.claim for each in leased if each.given_up and each.claim.id in released
            )
            self._drop(each for each in leased if each.claim.id in released)
            locked = lease.valid(connection, claims)
        self._drop(each for each in leased if each.claim.id not in locked)

    def release_last(self, leased: Sequence[LeasedMessage]) -> None:
        """Release the messages of a late claim, and messages that were locked before.

        Raises:
            psycopg.Error: the statement failed.
        """
        if leased:
            self.release(leased)
            with self._session.connected() as connection:
                self._tally.close(connection)  # the heartbeat has stored the earlier counts

    def end_transaction(self, leased: LeasedMessage) -> None:
        """End the transaction of an atomic run: it has the message's row locked."""
        try:
            if leased.lock:
                with self._session.connected() as connection:
                    lease.let_go(connection, [leased.lock])
        except Exception as error:
            signals.send(signals.service_failed, type(self), service="worker", error=error)

    def _drop(self, leased: Iterable[LeasedMessage]) -> None:
        for each in leased:
            each.lost = True
            self._leases.drop(each)
