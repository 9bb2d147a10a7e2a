"""Messages that can't be run, or whose end can't be stored, among others that can."""

from __future__ import annotations

from contextlib import closing

import pytest

from pgqueue.engine.cancel import cancel
from tests.chaos.harness.stage import Stage
from tests.eventually import eventually

ENQUEUE = "SELECT pgqueue_enqueue('tests.chaos.tasks.plain', %s::jsonb)"
REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused' USING ERRCODE = 'data_exception';
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON pgqueue_history FOR EACH ROW
WHEN (new.task = 'tests.chaos.tasks.refused') EXECUTE FUNCTION refuse()
"""
VACUUMS = """
SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = (
    SELECT reltoastrelid FROM pg_class WHERE oid = 'pgqueue_message'::regclass
)
"""


def test_what_cannot_be_read_or_stored_is_dead_and_harms_no_other(stage: Stage) -> None:
    stage.producer(rate=100)
    stage.worker()
    unencodable = stage.numbers("unstorable", 10)
    refused = stage.numbers("unstorable", 5)
    odd, listed = stage.numbers("unreadable", 2)

    with stage.fault(), closing(stage.server.connect()) as connection:
        connection.execute(REFUSE)
        for number in unencodable:
            stage.enqueue("unstorable", number)
        for number in refused:
            stage.enqueue("refused", number)
        for payload in (
            f'{{"args": [{odd}, {{"$pgqueue": "nonsense", "value": 1}}], "kwargs": {{}}}}',
            f'{{"args": [{listed}, [1, 2, 3]], "kwargs": {{}}}}',
        ):
            connection.execute(ENQUEUE, [payload])
        # These can't have a number.
        unreadable = [
            connection.execute(ENQUEUE, [payload]).fetchone()
            for payload in (
                '{"args": 7}',
                "[]",
                '"text"',
                "null",
                "1e400",
            )
        ]
        ids = [id for (id,) in unreadable]
        eventually(
            lambda: (
                stage.ask(
                    "SELECT count(*) FROM pgqueue_message WHERE state = 'dead' AND id = ANY (%s)",
                    ids,
                )
                == (len(ids),)
            ),
            what="what can't be read is dead",
        )
        connection.execute("DELETE FROM pgqueue_message WHERE id = ANY (%s)", [ids])

    stage.end()


@pytest.mark.chaos
def test_what_is_left_of_long_payloads_is_removed_soon(stage: Stage) -> None:
    stage.worker()
    text = stage.random.randbytes(25_000).hex()  # is 25 rows of 2 KB
    for number in stage.numbers("large", 60):
        stage.enqueue("large", number, text, len(text))

    stage.end()

    eventually(lambda: stage.ask(VACUUMS) > (0,), within=60, what="autovacuum comes to them")


@pytest.mark.chaos
def test_an_unknown_task_is_handed_back_later_each_time_and_never_in_a_hot_loop(
    stage: Stage,
) -> None:
    stage.producer(rate=100)
    stage.worker()

    with stage.fault():
        ids = [
            stage.enqueue(f"nowhere.task_{number}", number)
            for number in stage.numbers("unknown", 50)
        ]
        eventually(lambda: put_off(stage, ids, by="20 seconds"))
        stage.ask("UPDATE pgqueue_message SET run_at = now() WHERE id = ANY (%s) RETURNING id", ids)
        eventually(lambda: put_off(stage, ids, by="50 seconds"))
        stage.settles(200)

    assert stage.ask(
        "SELECT max(attempt), max(failures), max(lost) FROM pgqueue_message WHERE id = ANY (%s)",
        ids,
    ) == (2, 0, 0)
    # Each once a minute at most.
    assert stage.workers[0].log.count("No task is named") == 50
    with closing(stage.server.connect()) as connection:
        assert cancel(connection, ids).ended == set(ids)
    stage.end()


def put_off(stage: Stage, ids: list[int], *, by: str) -> bool:
    """Whether each of these is due in so long at the earliest."""
    query = (
        "SELECT count(*) FROM pgqueue_message "
        "WHERE id = ANY (%s) AND state = 'scheduled' AND run_at > now() + %s"
    )
    return bool(stage.ask(query, ids, by) == (len(ids),))
