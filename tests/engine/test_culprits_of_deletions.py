"""All other rows of a table are deleted beside one whose deletion raises."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.utils import timezone

from pgqueue.duties.forget import Forget
from pgqueue.duties.purge import Purge
from pgqueue.engine import culprits, expire, flows, run_statistics
from pgqueue.models import Channel, Flow, History, Reader, Staged, TaskPause, Worker
from pgqueue.states import Outcome
from tests.factories import Connection, ended, one, refusing, register

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.ERROR, logger="pgqueue")
    yield
    culprits.forget_all()


class TestWhatIsForgotten:
    def test_workers_readers_waiters_and_staged_rows_go_but_for_one_of_each(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        workers = [register(connection) for _ in range(4)]
        long_ago = timedelta(days=2)
        connection.execute("UPDATE pgqueue_worker SET last_seen = last_seen - %s", [long_ago])
        own = [uuid4() for _ in range(4)]
        for id in own:
            connection.execute(
                "INSERT INTO pgqueue_reader (id, host, pid, last_seen) VALUES (%s, 'h', 1, now())",
                [id],
            )
        connection.execute("UPDATE pgqueue_reader SET last_seen = last_seen - %s", [long_ago])
        connection.execute(
            "INSERT INTO pgqueue_waiter (message_id, until) "
            "SELECT n, now() - interval '1 s' FROM generate_series(1, 4) n"
        )
        connection.execute(
            "INSERT INTO pgqueue_staged (attempt, number) SELECT 1, n FROM generate_series(1, 4) n"
        )
        duty = Forget()

        with (
            refusing(
                connection,
                "pgqueue_worker",
                f"to_jsonb(OLD) ->> 'id' = '{workers[1]}' OR to_jsonb(OLD) ->> 'id' = '{own[1]}' "
                "OR to_jsonb(OLD) ->> 'message_id' = '2' OR to_jsonb(OLD) ->> 'number' = '2'",
                "DELETE",
            ),
            connection.transaction(),
        ):
            for table in ("reader", "waiter", "staged"):
                connection.execute(
                    f"CREATE TRIGGER refuse BEFORE DELETE ON pgqueue_{table} "
                    "FOR EACH ROW EXECUTE FUNCTION refuse()"
                )
            duty.run(connection)

        did = {"workers": 3, "readers": 3, "waiters": 3, "staged": 3}
        assert duty.did == {**did, "run_logs": 0, "append_locks": 0}
        assert Worker.objects.get().id == workers[1]
        assert Reader.objects.get().id == own[1]
        assert one(connection, "SELECT message_id FROM pgqueue_waiter") == (2,)
        assert Staged.objects.get().number == 2
        assert f"because of pgqueue_worker {workers[1]}" in caplog.text
        assert f"because of pgqueue_reader {own[1]}" in caplog.text
        assert "because of pgqueue_waiter " in caplog.text
        assert "because of pgqueue_staged 1, 2" in caplog.text

    @pytest.mark.parametrize(
        ("table", "columns", "values"),
        [
            ("statistic", "period, at", "'minute', now() - interval '40 days'"),
            ("statistic", "period, at", "'hour', now() - interval '40 days'"),
            ("total", "counted_at", "now() - interval '40 days'"),
        ],
        ids=["minutes", "hours", "totals"],
    )
    def test_figures_go_but_for_one(
        self,
        connection: Connection,
        caplog: pytest.LogCaptureFixture,
        table: str,
        columns: str,
        values: str,
    ) -> None:
        for n in range(4):
            connection.execute(
                f"INSERT INTO pgqueue_{table} ({columns}, channel, task, succeeded, failed, dead, "  # noqa: S608
                "deferred, discarded, cancelled, waited, ran, waits, runs, lost, released) "
                f"VALUES ({values}, 'c{n}', 't', 1, 0, 0, 0, 0, 0, 0, 0, "
                "array_fill(0::bigint, ARRAY[24]), array_fill(0::bigint, ARRAY[24]), 0, 0)"
            )

        with refusing(connection, f"pgqueue_{table}", "OLD.channel = 'c2'", "DELETE"):
            assert run_statistics.forget(connection) == 3

        assert one(connection, f"SELECT channel FROM pgqueue_{table}") == ("c2",)  # noqa: S608
        assert f"because of pgqueue_{table}" in caplog.text

    def test_pauses_of_tasks_go_but_for_one(self, connection: Connection) -> None:
        TaskPause.objects.bulk_create(
            TaskPause(task=f"t{n}", until=timezone.now()) for n in range(4)
        )

        with refusing(connection, "pgqueue_task_pause", "OLD.task = 't2'", "DELETE"):
            assert expire.resume(connection) == 3

        assert one(connection, "SELECT task FROM pgqueue_task_pause") == ("t2",)

    def test_sources_of_counts_go_but_for_one(self, connection: Connection) -> None:
        kept = uuid4()
        for source in (uuid4(), kept, uuid4()):
            connection.execute(
                "INSERT INTO pgqueue_tally_batch (source, number, at) "
                "VALUES (%s, 1, now() - interval '40 days')",
                [source],
            )

        with refusing(connection, "pgqueue_tally_batch", f"OLD.source = '{kept}'", "DELETE"):
            assert run_statistics.forget(connection) == 2

        assert one(connection, "SELECT source FROM pgqueue_tally_batch") == (kept,)

    def test_history_goes_though_the_progress_of_one_retention_can_not_be_stored(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        hour = timedelta(hours=1)
        ended(connection, 3, ago=1.5 * hour)
        ended(connection, 2, ago=5 * hour, channel="mail")
        Channel.objects.update_or_create(name="mail", defaults={"retention": 2 * hour})
        keep = {**dict.fromkeys(Outcome.values, 30 * DAY), "succeeded": hour}
        duty = Purge(retention=keep, dead_retention=30 * DAY)

        condition = "NEW.keep = interval '1 hour'"
        with (
            refusing(connection, "pgqueue_purged", condition, "INSERT OR UPDATE"),
            connection.transaction(),
        ):
            duty.run(connection)

        assert set(History.objects.values_list("channel", flat=True)) == {"default"}
        assert "purge fails because of pgqueue_purged 1:00:00" in caplog.text

    def test_flows_go_but_for_one(
        self, connection: Connection, caplog: pytest.LogCaptureFixture
    ) -> None:
        ids = [flows.reserve(connection) for _ in range(5)]
        for id in ids:
            flows.begin(connection, id, "")
            connection.execute(
                "INSERT INTO pgqueue_dependency (flow_id, child_id, parent_id) VALUES (%s, 2, 1)",
                [id],
            )
        flows.end(connection)

        for table in ("pgqueue_flow", "pgqueue_dependency"):
            column = "id" if table == "pgqueue_flow" else "flow_id"
            with refusing(connection, table, f"OLD.{column} = {ids[0]}", "DELETE"):
                while flows.forget(connection, keep=-MINUTE):
                    pass
            assert [each.id for each in Flow.objects.all()] == [ids[0]]
        assert caplog.text.count(f"because of pgqueue_flow {ids[0]}") == 1
