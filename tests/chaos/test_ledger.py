"""The ledger itself: it finds whatever a queue could do wrong."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from pgqueue.engine.workers import SQL
from tests.chaos.harness import ledger
from tests.chaos.harness.ledger import Books, Connection
from tests.chaos.harness.stage import Stage
from tests.chaos.harness.statements import all_of_them, names_of
from tests.chaos.producer import NUMBERS_EACH

# What a complaint is about, and what it takes to hear it; each leaves the rest as it should be.
WRONGS = {
    "lost": """
        DELETE FROM pgqueue_history
        WHERE id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.plain')""",
    "there more than once": """
        INSERT INTO pgqueue_history SELECT * FROM pgqueue_history
        WHERE id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.plain')""",
    "not enqueued, or undone": """
        SELECT pgqueue_enqueue('tests.chaos.tasks.plain', '{"args": [77], "kwargs": {}}')""",
    "ended otherwise": """
        UPDATE pgqueue_history SET outcome = 'discarded'
        WHERE id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.plain')""",
    "2 effects": """
        INSERT INTO chaos_effect (number, message_id, attempt)
        SELECT number, message_id, 2 FROM chaos_effect
        WHERE message_id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.atomic')""",
    "without its effect": """
        DELETE FROM chaos_effect
        WHERE message_id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.plain')""",
    "out of order": """
        UPDATE chaos_effect SET id = DEFAULT
        WHERE message_id = (SELECT min(id) FROM pgqueue_history WHERE ordered
                            GROUP BY key HAVING count(*) > 1 LIMIT 1)""",
    "otherwise than it was enqueued": f"""
        WITH ran AS (
            SELECT e.id, e.number, h.key, e.number / {NUMBERS_EACH} AS producer
            FROM chaos_effect e JOIN pgqueue_history h ON h.id = e.message_id WHERE h.ordered),
        two AS (
            SELECT id, number FROM ran
            WHERE (key, producer) = (SELECT key, producer FROM ran
                                     GROUP BY key, producer HAVING count(*) > 1 LIMIT 1)
            ORDER BY id LIMIT 2)
        UPDATE chaos_effect e SET number = other.number
        FROM two, two other
        WHERE e.id = two.id AND other.id <> e.id""",  # noqa: S608
    "charged more often than they ran": """
        UPDATE pgqueue_history SET failures = attempt
        WHERE id = (SELECT min(id) FROM pgqueue_history WHERE task LIKE '%.plain')""",
    "was never met": "UPDATE chaos_run SET ended_at = began_at",
    "the rate was exceeded": """
        UPDATE pgqueue_history SET claimed_at = 'epoch' WHERE channel = 'paced'""",
    "the limit of the channel is 5": "UPDATE chaos_run SET began_at = 'epoch'",
    "the limit of each key is 2": """
        UPDATE chaos_run SET began_at = 'epoch', ended_at = 'epoch'::timestamptz + interval '1 s'
        WHERE message_id IN (
            SELECT id FROM pgqueue_history WHERE channel = 'limited' AND key = (
                SELECT key FROM pgqueue_history WHERE channel = 'limited'
                GROUP BY key ORDER BY count(*) DESC LIMIT 1)
            LIMIT 3)""",
    "effects of what was never enqueued": """
        INSERT INTO chaos_effect (number, message_id, attempt) VALUES (77, 77, 1)""",
    "messages": """
        SELECT pgqueue_enqueue('tests.chaos.tasks.plain', '{"args": [-1], "kwargs": {}}')""",
    "leases": "UPDATE pgqueue_message SET worker_id = gen_random_uuid() WHERE state = 'dead'",
    "lanes": "INSERT INTO pgqueue_lane (channel, key, state, turn_at, tat) "
    "VALUES ('limited', 'z', 'saturated', now(), now())",
    "lanes are left": "INSERT INTO pgqueue_lane (channel, key, state, turn_at, tat) "
    "VALUES ('limited', 'z', 'idle', now(), now())",
    "bells": "INSERT INTO pgqueue_bell (channel, key) VALUES ('limited', 'a')",
}
OVERDUE = "UPDATE pgqueue_duty SET due_at = now() - interval '1 minute'"


@pytest.mark.smoke
def test_the_ledger_finds_whatever_a_queue_could_do_wrong(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "CROWDED", 32)  # nothing happens to the worker, who meets them
    for _ in range(2):
        stage.producer(rate=60)
    stage.worker()
    hopeless = stage.numbers("hopeless", 1)
    stage.enqueue("hopeless", *hopeless, max_attempts=1)
    stage.settles(300)
    stage.end()

    with closing(stage.server.connect()) as connection:
        for complaint, wrong in WRONGS.items():
            with connection.transaction(force_rollback=True):
                connection.execute(wrong)
                assert complaint in complaint_of(connection, stage.books)
        with connection.transaction(force_rollback=True):
            connection.execute(OVERDUE)
            assert "duties that are not done" in ledger.leftovers(connection, of_workers=True)
        known = next(iter(stage.books.committed))
        half = replace(stage.books, unsure=[{known: "plain", 77: "plain"}])
        assert "half of a transaction" in complaint_of(connection, half)
        assert not complaint_of(connection, stage.books)


def complaint_of(connection: Connection, books: Books) -> str:
    try:
        ledger.audit(connection, books)
    except AssertionError as error:
        return str(error)
    return ""


def test_a_statement_is_known_however_its_parameters_are_sent() -> None:
    beat = SQL["beat"]
    sent = beat.replace("%(notify_for)s", "$1").replace("%(id)s", "$2")
    merged = beat.replace("%(notify_for)s", "'20 s'").replace("%(id)s", "'abc'")

    assert names_of(sent) == names_of(merged) == {"workers.beat"}
    assert not names_of("SELECT 1")
    assert len(all_of_them()) > 70
