from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from pgqueue.duties.forget import Forget
from pgqueue.engine import readers, staged, wait
from pgqueue.models import AppendLock, Reader, Staged, Worker
from tests.duties.kinds import MINUTE
from tests.factories import OVER, Connection, one, register


class TestForgetting:
    def test_removes_workers_silent_for_a_day_and_those_who_waited(
        self, connection: Connection
    ) -> None:
        for hours in (25, 23):
            connection.execute(
                "UPDATE pgqueue_worker SET last_seen = last_seen - %s WHERE id = %s",
                [timedelta(hours=hours), register(connection)],
            )
        wait.announce(connection, [1, 2], lasting=OVER)
        wait.announce(connection, [3], lasting=MINUTE)
        forget = Forget()

        again_in = forget.run(connection)

        assert again_in == timedelta(hours=1)
        assert forget.did == {
            "workers": 1,
            "readers": 0,
            "waiters": 2,
            "staged": 0,
            "run_logs": 0,
            "append_locks": 0,
        }
        silent_for = datetime.now(UTC) - Worker.objects.get().last_seen
        assert timedelta(hours=22) < silent_for < timedelta(hours=24)
        assert one(connection, "SELECT message_id FROM pgqueue_waiter") == (3,)

    def test_removes_readers_of_the_log_silent_for_a_day(self, connection: Connection) -> None:
        ids = [uuid4(), uuid4()]
        for id, hours in zip(ids, (25, 23), strict=True):
            readers.beat(connection, id, notify_for=MINUTE)
            connection.execute(
                "UPDATE pgqueue_reader SET last_seen = last_seen - %s WHERE id = %s",
                [timedelta(hours=hours), id],
            )
        forget = Forget()

        forget.run(connection)

        assert forget.did["readers"] == 1
        assert Reader.objects.get().id == ids[1]

    def test_removes_what_spark_has_staged_and_never_committed(
        self, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        connection.execute(
            "INSERT INTO pgqueue_staged (attempt, number) SELECT 1, n FROM generate_series(1, 5) n"
        )
        monkeypatch.setattr(staged, "FORGOTTEN", 3)
        forget = Forget()

        assert forget.run(connection) == timedelta(seconds=1)
        assert forget.did["staged"] == 3
        assert forget.run(connection) == timedelta(hours=1)
        assert not Staged.objects.exists()

    def test_removes_locks_of_publishers_with_conditions_after_a_day_but_none_that_is_held(
        self, connection: Connection, other: Connection
    ) -> None:
        connection.execute(
            "INSERT INTO pgqueue_append_lock (topic, key, used_at) "
            "SELECT 'a', hours::text, statement_timestamp() - hours * interval '1 hour' "
            "FROM unnest(ARRAY[23, 25, 26]) hours"
        )
        forget = Forget()

        with other.transaction():
            other.execute("UPDATE pgqueue_append_lock SET used_at = now() WHERE key = '26'")
            forget.run(connection)

        assert forget.did["append_locks"] == 1
        assert set(AppendLock.objects.values_list("key", flat=True)) == {"23", "26"}
