"""How much a claim brings, by the bytes of its messages."""

from __future__ import annotations

import json
import random
from base64 import b64encode
from uuid import uuid4

import pytest

from pgqueue.engine import claim as claiming
from pgqueue.engine import claim_governed, route, settle
from pgqueue.engine.claim import Search
from pgqueue.engine.values import Claim
from tests.claims import claimer
from tests.factories import LEASE, Connection, done, limit, store


class TestSize:
    """However many are asked for, a claim brings only so many bytes, or one message."""

    MEGABYTE = 50_000  # or so
    MOST = 64 * MEGABYTE

    @pytest.fixture(params=["packed", "as it is", "body"])
    def large(self, connection: Connection, request: pytest.FixtureRequest) -> None:
        """Forty messages of the same size, in four lanes, and small ones behind them."""
        text = "x" * 4 * self.MEGABYTE
        if request.param == "as it is":
            text = b64encode(random.Random(1).randbytes(3 * self.MEGABYTE)).decode()
        is_body = request.param == "body"
        for number in range(40):
            key = str(number % 4)
            if is_body:
                body = random.Random(number).randbytes(4 * self.MEGABYTE)
                store(connection, key, payloads=["{}"], bodies=[body])
            else:
                store(connection, key, payloads=[json.dumps(text)])
        for key in "0123":
            store(connection, key)
        connection.execute("UPDATE pgqueue_message SET metadata = '{}'")

    @pytest.mark.usefixtures("large")
    @pytest.mark.parametrize("how", ["free", "governed", "at once"])
    def test_is_bounded(self, connection: Connection, how: str) -> None:
        if how == "governed":
            limit(max_running=100)
            route.adopt(connection)
            route.route(connection, after=0)
        ids: list[int] = []

        while len(ids) < 44:
            claims = self.claim(connection, how)
            sizes = [len(each.payload or b"") + len(each.body or b"") for each in claims]
            assert 0 < sum(sizes) <= self.MOST + 4.1 * self.MEGABYTE
            assert sum(sizes) > 40 * self.MEGABYTE or len(ids) + len(claims) == 44
            ids += [each.id for each in claims]
            settle.complete(connection, [done(each) for each in claims])

        assert len(set(ids)) == 44
        for lane in range(4):  # in their order
            mine = [id for id in ids if id % 4 == (min(ids) + lane) % 4]
            assert mine == sorted(mine)

    def claim(self, connection: Connection, how: str) -> list[Claim]:
        if how == "at once":
            return claiming.claim_at_once(
                connection, "default", limit=1000, worker_id=uuid4(), lease=LEASE, size=self.MOST
            )
        if how == "governed":
            return claim_governed.claim(
                connection,
                "default",
                claim_governed.EVERY_TURN,
                1000,
                worker_id=uuid4(),
                lease=LEASE,
                size=self.MOST,
            ).claims
        return claiming.claim(
            connection,
            known=[],
            searched=[Search("default", None, 1000, 1000)],
            limit=1000,
            worker_id=uuid4(),
            lease=LEASE,
            size=self.MOST,
        ).claims

    def test_lets_one_through_that_is_larger(self, connection: Connection) -> None:
        store(connection, payloads=[json.dumps("x" * self.MEGABYTE)] * 3)

        claims = claiming.claim_at_once(
            connection, "default", limit=9, worker_id=uuid4(), lease=LEASE, size=1000
        )

        assert len(claims) == 1

    @pytest.mark.usefixtures("large")
    @pytest.mark.parametrize("is_governed", [False, True])
    def test_of_all_that_a_worker_claims_at_once_is_bounded(
        self, connection: Connection, is_governed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(claiming, "BYTES", self.MOST)
        connection.execute("UPDATE pgqueue_message SET channel = 'c' || key")
        if is_governed:
            for number in range(4):
                limit(channel=f"c{number}", max_running=100)

        claimed = claimer(connection).claim(1000)

        sizes = [each.size for each in claimed]
        assert 40 * self.MEGABYTE < sum(sizes) <= self.MOST + 4.1 * self.MEGABYTE
