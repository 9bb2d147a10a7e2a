"""Which statements count as a change of the session, and until when a session is looked at."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any
from weakref import ref

import pytest
from django.db import connection, transaction

from pgqueue.database import guard, session_state
from pgqueue.database.session_state import (
    LONGEST_KNOWN,
    changes_session,
    may_end_transaction,
    sets_only_path,
)


@pytest.mark.parametrize(
    "text",
    [
        *("SELECT 1", "select 1;", "", " ; ", "(SELECT 1) UNION SELECT 2", "VALUES (1)"),
        "-- a comment\n/* and another */ SELECT 1 /* traceparent='00-7' */",
        *("SET LOCAL search_path = x", "set  transaction isolation level serializable"),
        "SET CONSTRAINTS ALL IMMEDIATE",
        *("SELECT set_config('a', %s, true)", "SELECT set_config( %s , 'x', TRUE )"),
        "SELECT pg_advisory_xact_lock(1), pg_try_advisory_xact_lock(2)",
        *("INSERT INTO temp VALUES (1)", "SELECT temp FROM weather", "UPDATE temporary SET a = 1"),
        *("BEGIN", "SAVEPOINT a", "ROLLBACK TO SAVEPOINT a", "COMMIT", "RELEASE SAVEPOINT a"),
        *(
            "CREATE TABLE x ()",
            "DECLARE c CURSOR FOR SELECT 1",
            "NOTIFY a, 'b'",
            "COPY a FROM STDIN",
        ),
    ],
)
def test_a_statement_that_ends_with_its_transaction_changes_nothing(text: str) -> None:
    assert not changes_session(text)


@pytest.mark.parametrize(
    "text",
    [
        *("SET search_path = x", "set\trole x", "SET/**/ROLE x", "/* a */ SET x TO 1", "SET x=1"),
        *("SET SESSION AUTHORIZATION x", "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"),
        *("SET TIME ZONE 'UTC'", "RESET ALL", "RESET ROLE", "DISCARD ALL", "DEALLOCATE ALL"),
        *("SELECT 1; SET ROLE x", "COMMIT; SET x = 1; BEGIN", "SELECT ';'; SET ROLE x"),
        *("PREPARE a AS SELECT 1", "LISTEN a", "UNLISTEN *", "LOAD 'auto_explain'"),
        *("DO $$ BEGIN PERFORM 1; END $$", "CALL anything()", "%s", "'x'", "no such word"),
        *("SELECT set_config('a', 'b', false)", "SELECT set_config(%s, %s, %s)"),
        "SELECT set_config('a', 'b', true), set_config('c', 'd', false)",
        "SELECT pg_catalog.\"set_config\"('a', 'b', true)",
        *("SELECT pg_advisory_lock(1)", "SELECT pg_try_advisory_lock_shared(1, 2)"),
        *("CREATE TEMP TABLE x ()", "create local temporary table x ()", "CREATE/**/TEMP VIEW a"),
        *("CREATE OR REPLACE TEMPORARY VIEW a AS SELECT 1", "CREATE TABLE pg_temp.x ()"),
        *("SELECT 1 INTO TEMP x", "WITH a AS (SELECT 1) SELECT * INTO LOCAL TEMPORARY x FROM a"),
        "SELECT '/*', set_config('a', 'b', false), '*/'",
        *(
            "DECLARE c CURSOR WITH HOLD FOR SELECT 1",
            "DECLARE c CURSOR WITH /* */ HOLD FOR SELECT 1",
        ),
    ],
)
def test_a_statement_that_may_outlive_its_transaction_changes_the_session(text: str) -> None:
    assert changes_session(text)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("error", [None, ValueError])
def test_a_session_is_looked_at_until_the_call_has_ended_or_failed(error: Any) -> None:
    def call() -> None:
        assert session_state._sessions[own].kept is not None
        if error:
            raise error

    connection.ensure_connection()
    own: Any = connection.connection
    session_state.watch(own)
    try:
        with pytest.raises(error or ZeroDivisionError), transaction.atomic():
            guard.call(call)
            raise ZeroDivisionError

        assert session_state._sessions[own].kept is None
    finally:
        connection.close()


@pytest.mark.parametrize("comments", ["-" * 34, "/**/" * 23])
def test_comments_behind_a_commit_are_read_at_once(comments: str) -> None:
    began = monotonic()

    assert may_end_transaction(f"COMMIT {comments}")
    assert monotonic() - began < 1


class Text(str):
    """A text that can be looked for later."""


@pytest.mark.parametrize("judge", [changes_session, sets_only_path, may_end_transaction])
def test_a_long_text_is_not_kept(judge: Callable[[str], bool]) -> None:
    short, long = Text("SELECT 'a text'"), Text("SELECT 1" + " " * LONGEST_KNOWN)
    texts = ref(short), ref(long)

    judge(short)
    judge(long)
    del short, long

    assert [text() is not None for text in texts] == [True, False]


def test_a_long_text_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    real = session_state._is_lasting
    monkeypatch.setattr(session_state, "_is_lasting", lambda each: judged.append(1) or real(each))
    text = "SELECT 'judged once'" + " " * LONGEST_KNOWN

    assert not changes_session(text)
    assert not changes_session("".join(text))

    assert judged == [1]
