from __future__ import annotations

from datetime import timedelta

from pgqueue.engine.values import Claim
from tests.claims import FreeClaims, GovernedClaims
from tests.factories import LEASE, Connection


class Worker:
    """Claims as worker.fetcher.Fetcher does, of free lanes and of governed ones."""

    def __init__(self, connection: Connection, *, lease: timedelta = LEASE) -> None:
        self.claims: list[Claim] = []
        self._turns = FreeClaims(connection, lease=lease)
        self._rounds = GovernedClaims(connection, lease=lease)

    def claim(self, limit: int, share: int, *, governed_first: bool) -> list[Claim]:
        """Claim up to `limit`, of which the first kind has a share."""
        kinds = [self._rounds, self._turns] if governed_first else [self._turns, self._rounds]
        claims = kinds[0].claim(min(share, limit))
        claims += kinds[1].claim(limit - len(claims)) if len(claims) < limit else []
        self.claims += claims
        return claims
