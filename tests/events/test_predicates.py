"""Conditions in SQL: what they may say, and what becomes of one that fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import django.db
import psycopg
import pytest
from django.db import transaction

from pgqueue import InvalidSubscription, publish, publish_many
from pgqueue.database.connections import Contact
from pgqueue.duties.dispatch import Dispatch
from pgqueue.duties.run import run_duty
from pgqueue.engine import duty, predicates
from pgqueue.events import subscribing, subscriptions
from pgqueue.models import Message, Subscription
from tests.events import handlers
from tests.factories import LEASE, Connection, one


@pytest.fixture
def dispatch(connection: Connection) -> Iterator[Callable[[], None]]:
    """A function that dispatches all events that are there, as a worker does."""
    duties = Dispatch(database="default", subscribing=subscribing)

    def dispatch() -> None:
        duty.due(connection, ["dispatch"])
        duties.look(connection)
        while run_duty(connection, duties, contact=Contact(lease=LEASE), early=True) == timedelta():
            pass

    dispatch()
    yield dispatch
    duties.close()


def create(name: str, predicate: str, **options: Any) -> Subscription:
    return subscriptions.create(name, handlers.plain, predicate=predicate, **options)


def django_session() -> Connection:
    """Return the session that requests have."""
    django.db.connection.ensure_connection()
    session: Connection = django.db.connection.connection
    return session


@contextmanager
def rolled_back(session: Connection) -> Iterator[None]:
    """A transaction of which nothing is left."""
    with session.transaction(force_rollback=True):
        yield


def numbers(name: str) -> list[int]:
    """Return what the messages of a subscription are of."""
    rows = Message.objects.filter(metadata__subscription=name).order_by("id")
    return [each.payload["args"][0]["payload"]["n"] for each in rows]


ALLOWED = (
    "(e.payload ->> 'n')::numeric % 2 = 0",
    "e.topic LIKE 'order.%' AND e.key <> '' -- and a comment",
    "e.payload @> s.params OR e.created_at > '2020-01-01'",
    "coalesce(lower(e.payload ->> 'name'), '') ~ '^a' IS NOT TRUE",
    "jsonb_array_length(coalesce(e.payload -> 'lines', '[]')) < 3",
    "CASE WHEN e.position > 5 THEN true ELSE s.name = 'x' END",
    "(e.payload ->> 'n') = ANY (ARRAY['1', '2'])",
    "(e.key, e.position) > ('a', 5) AND e.created_at < now() - interval '1 day'",
    "json_value(e.payload, '$.n' RETURNING numeric) > 5 OR json_exists(e.payload, '$.a')",
    "e.payload IS JSON OBJECT AND json_query(e.payload, '$.a') IS NULL",
    "jsonb_path_match(e.payload, '$.due.datetime() < \"2027-01-01\".datetime()')",
    "to_char(e.created_at, 'YYYY') = '2026' AND e.key COLLATE \"C\" < 'a'",
    "to_tsvector(e.payload ->> 'text') @@ plainto_tsquery('urgent')",
    "(e.payload -> 'lines' -> 0)['sku'] = '\"a\"' AND e.topic BETWEEN 'a' AND 'b'",
    "greatest(e.position, 5) = 5 AND nullif(e.key, '') IS DISTINCT FROM 'x'",
    "to_jsonb(e.topic) <> s.params -> 'topic' AND e.key NOT LIKE '%;%' /* ; */",
)
REFUSED = (
    "EXISTS (SELECT FROM pgqueue_message)",
    "(SELECT count(*) FROM pg_class) > 0",
    "set_config('role', 'none', true) <> ''",
    "pg_sleep(10) IS NULL",
    "query_to_xml('SELECT 1', true, true, '') IS NOT NULL",
    "lo_import('/etc/passwd') > 0",
    "nextval('pgqueue_message_id_seq') > 0",
    "pgqueue_tell_v1('a')",
    "count(*) > 0",
    "generate_series(1, 3) > 1",
    "row_number() OVER () > 1",
    "true) UNION (SELECT 1, 'x'",
    "true) GROUP BY 1, 2 HAVING (true",
    "true; DROP TABLE pgqueue_message",
    "nothing = 1",
    "e.payload ->> 'n'",
    "",
    "1",
    # What others have, by tables or without naming one.
    "(SELECT count(*) FROM auth_user) > 0",
    "e.key = ANY (ARRAY(SELECT password FROM auth_user))",
    "EXISTS (TABLE auth_user)",
    "(VALUES (1)) = 1",
    "table_to_xml('auth_user', true, true, '') IS NOT NULL",
    "schema_to_xml('public', true, true, '') IS NOT NULL",
    "database_to_xml(true, true, '') IS NOT NULL",
    "current_setting('data_directory') <> ''",
    "pg_stat_get_backend_activity(1) <> ''",
    "pg_get_functiondef(1) <> ''",
    "has_table_privilege('auth_user', 'SELECT')",
    "'auth_user'::regclass IS NOT NULL",
    "pg_read_file('/etc/passwd') <> ''",
    "pg_read_binary_file('/etc/passwd') IS NOT NULL",
    "pg_ls_dir('/') <> ''",
    "lo_get(1) IS NOT NULL",
    "dblink('dbname=postgres', 'SELECT 1') IS NULL",
    # The same through a type, a row, or the input function of any type.
    "'{auth_user}'::regclass[] IS NOT NULL",
    "'postgres=r/postgres'::aclitem IS NOT NULL",
    "'(1)'::pg_language IS NOT NULL",
    "('(1)'::pg_language).lanname = 'a'",
    "domain_in('x', 13000, -1) IS NOT NULL",
    "record_in('(1)', 2249, -1) IS NOT NULL",
    "array_in('{1}', 23, -1) IS NOT NULL",
    "enum_in('a', 13000) IS NOT NULL",
    "regclassin('auth_user') IS NOT NULL",
    "format_type(16390, -1) <> ''",
    "'<a/>'::xml IS NOT NULL",
    "xmlexists('/a' PASSING '<a/>')",
    "xmlelement(name a) IS NULL",
    "xpath('/a', '<a/>') IS NULL",
    "e.payload = ANY (SELECT 1)",
    "EXISTS (SELECT FROM json_table(e.payload, '$' COLUMNS (a int)))",
    "EXISTS (SELECT FROM xmltable('/a' PASSING '<a/>' COLUMNS a int))",
    "current_user = 'a'",
    "session_user = 'a'",
    "user = 'a'",
    "current_database() = 'a'",
    "current_catalog = 'a'",
    "current_schema = 'a'",
    "version() = 'a'",
    "pg_partition_root('auth_user') IS NULL",
    "to_tsvector('english', e.key) IS NULL",
    "ts_lexize('english_stem', 'a') IS NULL",
    # What does something.
    "pg_catalog.set_config('role', 'none', true) <> ''",
    "ts_rewrite('a'::tsquery, 'SELECT 1, 2') IS NULL",
    "pg_terminate_backend(pg_backend_pid())",
    "pg_advisory_lock(1) IS NULL",
    "pg_notify('a', 'b') IS NULL",
    "pg_current_xact_id() IS NOT NULL",
    "setseed(0.5) IS NULL",
    "random() < 0.5",
    "DO $$ BEGIN PERFORM 1; END $$",
    "$1 = 1",
    # What ends the parenthesis that it stands in, or the statement.
    "true) OR (true",
    "true) LIMIT (1",
    "true) OFFSET (1",
    "true THEN true WHEN true",
    "true) THEN true END) OR (CASE WHEN (true",
    "true /*",
    "true) -- ",
    "true */ OR true",
    "$$ OR true",
    "true); SELECT (true",
    "true); CREATE TABLE pgqueue_made (); SELECT (true",
    "true); COMMIT; CREATE TABLE pgqueue_made (); BEGIN; SAVEPOINT a; SELECT (true",
    "true); RESET ROLE; CREATE TABLE pgqueue_made (); SELECT (true",
)


@pytest.mark.parametrize("predicate", ALLOWED)
def test_what_only_looks_at_an_event_and_a_subscription_is_allowed(
    connection: Connection, predicate: str
) -> None:
    predicates.check(connection, predicate)


@pytest.mark.parametrize("predicate", REFUSED)
def test_what_reads_or_does_anything_else_is_refused_and_leaves_nothing(
    connection: Connection, predicate: str
) -> None:
    with pytest.raises(InvalidSubscription, match="predicate="):
        predicates.check(connection, predicate)

    for name in ("pg_temp.pgqueue_checked", "pgqueue_made"):
        assert one(connection, "SELECT to_regclass(%s)::text", name) == (None,)


@pytest.mark.django_db
def test_one_that_brings_other_statements_is_refused_on_djangos_connection_too() -> None:
    bad = "true); CREATE TABLE pgqueue_made (); SELECT (true"

    with pytest.raises(InvalidSubscription, match="multiple commands"):
        subscriptions.checked_predicate(bad)


ESCAPES = (
    "true); RESET ROLE; CREATE TABLE pgqueue_made (); SELECT (1, 'x'",
    "true); COMMIT; CREATE TABLE pgqueue_made (); SELECT (1, 'x'",
)


@pytest.mark.parametrize("predicate", ESCAPES)
@pytest.mark.parametrize("of", ["a worker", "Django"])
def test_one_that_nobody_checked_is_evaluated_as_one_statement(
    connection: Connection, predicate: str, of: str
) -> None:
    session = connection if of == "a worker" else django_session()

    with pytest.raises(psycopg.errors.SyntaxError, match="multiple commands"), rolled_back(session):
        predicates.evaluate(session, predicate, "[]", "[]")

    assert one(connection, "SELECT to_regclass('pgqueue_made')::text") == (None,)


LOOKS = (
    "(SELECT count(*) FROM public.auth_user) >= 0",
    "(SELECT count(*) FROM public.pgqueue_message) >= 0",
    "table_to_xml('public.auth_user', true, true, '') IS NOT NULL",
    "pg_read_file('/etc/passwd') <> ''",
    "pg_ls_dir('/') IS NULL",
    "lo_import('/etc/passwd') > 0",
    "nextval('public.pgqueue_message_id_seq') > 0",
)


@pytest.mark.parametrize("predicate", LOOKS)
def test_one_that_nobody_checked_has_no_rights_to_look(
    connection: Connection, predicate: str
) -> None:
    refused = (psycopg.errors.InsufficientPrivilege, psycopg.errors.FeatureNotSupported)
    event = '[{"position": 1, "topic": "a"}]'
    subscription = '[{"name": "s", "is_any": true, "path": "", "exact": [], "regex": ""}]'

    with pytest.raises(refused), rolled_back(connection):
        predicates.evaluate(connection, predicate, event, subscription)


def test_a_function_of_the_project_is_refused_and_named(connection: Connection) -> None:
    connection.execute(
        "CREATE FUNCTION peeps(bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT true'"
    )
    try:
        with pytest.raises(InvalidSubscription, match=r"peeps\(bigint\)"):
            predicates.check(connection, "peeps(e.position)")
    finally:
        connection.execute("DROP FUNCTION peeps(bigint)")


WAYS_TO_A_DOMAIN = (
    "e.key::curious <> ''",
    "json_value(e.payload, '$.a' RETURNING curious) IS NULL",
    "json_query(e.payload, '$.a' RETURNING curious) IS NULL",
    "json_value(e.payload, '$.a' RETURNING numeric DEFAULT ('1'::curious)::numeric ON ERROR) > 1",
    "ARRAY[e.key]::curious[] IS NULL",
    "'{a}'::curious[] IS NULL",
    "'(a)'::row_of_curious IS NULL",
    "('(a)'::row_of_curious).it IS NULL",
    "jsonb_populate_record(NULL::row_of_curious, e.payload) IS NULL",
    "(e.payload ->> 'a')::a_mood = 'happy'",
    "e.key COLLATE odd = 'a'",
    "{domain_in} IS NULL",
    "{record_in} IS NULL",
    "{array_in} IS NULL",
    "'a'::public.curious IS NULL",
    "'{a}'::public.curious[] IS NULL",
    "'{a}'::Public /* */ . curious[] IS NULL",
    "'{a}'::public--\n.curious[] IS NULL",
    "'{a}'::\"public\".curious[] IS NULL",
    "'{a}'::u&\"publi\\0063\".curious[] IS NULL",
    "CAST('(a)' AS public.row_of_curious) IS NULL",
    "public.curious 'a' IS NULL",
)


@pytest.mark.parametrize("predicate", WAYS_TO_A_DOMAIN)
def test_no_way_leads_to_a_check_or_a_type_of_the_project(
    connection: Connection, predicate: str
) -> None:
    with rolled_back(connection):
        connection.execute(
            "CREATE FUNCTION spied(text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS "
            "'BEGIN RAISE EXCEPTION ''it ran''; END';"
            "CREATE DOMAIN curious AS text CHECK (spied(VALUE));"
            "CREATE TYPE row_of_curious AS (it curious);"
            "CREATE TYPE a_mood AS ENUM ('happy');"
            "CREATE COLLATION odd (provider = libc, locale = 'C')"
        )
        number, row = one(
            connection, "SELECT 'curious'::regtype::int, 'row_of_curious'::regtype::int"
        )
        asked = (
            predicate.format(
                domain_in=f"domain_in('x', {number}, -1)",
                record_in=f"record_in('(x)', {row}, -1)",
                array_in=f"array_in('{{{{x}}}}', {number}, -1)",
            )
            if "{d" in predicate or "_in}" in predicate
            else predicate
        )

        with pytest.raises(InvalidSubscription, match="may not use|does not exist"):
            predicates.check(connection, asked)


def test_each_function_of_postgresql_that_looks_at_more_than_its_arguments_is_refused(
    connection: Connection,
) -> None:
    looking = (
        r"^(pg_|txid_|has_|to_reg|inet_|row_security|current_|session_|system_|get|format_type"
        r"|version|ts_lexize|domain_in|enum_|aclitem|reg|mxid_|lo_|query_to|table_to|schema_to"
        r"|database_to|cursor_to|col_desc|obj_desc|shobj|json.?_populate|oidvectortypes)"
        r"|_to_xml|_description$|setting|_file|(?<!^convert)_in$|_recv$"
    )
    rows = connection.execute(
        "SELECT oid::int, proname, provolatile FROM pg_proc "
        "WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND provolatile <> 'i'"
    ).fetchall()

    tree = "".join(f" :funcid {oid} " for oid, _, _ in rows)
    refused = {name.partition("(")[0].strip('"') for name in predicates._foreign(connection, tree)}
    allowed = {name for _, name, _ in rows} - refused

    assert len(rows) > 500
    assert {name for _, name, how in rows if how == "v"} & allowed == set()
    assert {name for name in allowed if re.search(looking, name)} == set()


def test_an_overload_made_after_the_check_is_not_called(connection: Connection) -> None:
    predicate = "abs(e.payload) IS NULL OR abs(e.position) > 0"
    event = '[{"position": 1, "topic": "a", "payload": {}}]'
    subscription = '[{"name": "s", "is_any": true, "path": "", "exact": [], "regex": ""}]'
    with rolled_back(connection):
        connection.execute(
            "CREATE FUNCTION abs(jsonb) RETURNS int LANGUAGE sql AS 'SELECT NULL::int'"
        )

        with pytest.raises(psycopg.errors.UndefinedFunction), rolled_back(connection):
            predicates.evaluate(connection, predicate, event, subscription)


def test_an_operator_or_a_type_of_the_project_is_refused(connection: Connection) -> None:
    connection.execute(
        "CREATE FUNCTION peeps(text, text) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT true';"
        "CREATE OPERATOR @@@@ (FUNCTION = peeps, LEFTARG = text, RIGHTARG = text);"
        "CREATE DOMAIN curious AS text CHECK (peeps(VALUE, VALUE))"
    )
    try:
        for predicate in ("e.key @@@@ e.topic", "e.key::curious <> ''"):
            with pytest.raises(InvalidSubscription, match="does not exist|it may not use"):
                predicates.check(connection, predicate)
    finally:
        connection.execute("DROP DOMAIN curious; DROP FUNCTION peeps(text, text) CASCADE")


def test_it_is_evaluated_by_a_role_that_may_read_nothing(connection: Connection) -> None:
    with connection.transaction():
        before = one(connection, "SELECT current_user")
        event = '[{"position": 1, "topic": "a"}]'
        subscription = '[{"name": "s", "is_any": true, "path": "", "exact": [], "regex": ""}]'
        asked = f"current_user = '{predicates.ROLE}'"  # no check lets that in

        met = predicates.evaluate(connection, asked, event, subscription)

        assert (met, one(connection, "SELECT current_user")) == ([(1, "s")], before)
    assert one(
        connection,
        "SELECT has_table_privilege(%s, 'pgqueue_message', 'SELECT')",
        predicates.ROLE,
    ) == (False,)


def test_events_that_meet_it_become_messages(dispatch: Callable[[], None]) -> None:
    create("even", "(e.payload ->> 'n')::int % 2 = 0", topics="order.*", where={"n__gt": 1})
    publish_many([("order.paid", {"n": n}) for n in range(6)] + [("other", {"n": 4})])

    dispatch()
    dispatch()

    assert numbers("even") == [2, 4]


def test_subscriptions_that_differ_in_their_parameters_are_matched_together(
    dispatch: Callable[[], None],
) -> None:
    same = "(e.payload ->> 'n') = (s.params ->> 'n')"
    for n in range(20):
        create(f"own {n}", same, params={"n": n})
    publish_many([("a", {"n": n}) for n in range(30)])

    dispatch()

    assert [numbers(f"own {n}") for n in range(20)] == [[n] for n in range(20)]


def test_one_that_fails_pauses_its_subscriptions_and_never_the_log(
    dispatch: Callable[[], None],
) -> None:
    create("fails", "(e.payload ->> 'n')::int > 0")
    create("good", "e.payload ->> 'n' IS NOT NULL")
    dispatch()
    publish("a", {"n": "no number"})

    dispatch()

    failed = Subscription.objects.get(pk="fails")
    assert (failed.paused, failed.follows) == (True, False)
    assert "invalid input syntax" in failed.error
    assert numbers("good") == ["no number"]

    Subscription.objects.filter(pk="fails").update(predicate="true")
    Subscription.objects.filter(pk="fails").resume()
    dispatch()

    assert numbers("fails") == ["no number"]


def test_one_that_takes_too_long_is_paused(
    dispatch: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgqueue.engine.matching.PATIENCE", 0.2)
    create("slow", "repeat('a', 40) || e.key || 'b' ~ '^(a|aa)+$' OR repeat(e.topic, 9) = e.key")
    Subscription.objects.filter(pk="slow").update(predicate="pg_sleep(3) IS NULL")
    dispatch()
    publish("a", {"n": 1})

    dispatch()

    slow = Subscription.objects.get(pk="slow")
    assert slow.paused
    assert "QueryCanceled" in slow.error


def test_they_are_off_where_the_role_can_not_be_used(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predicates, "ROLE", "nobody_has_this_role")

    with pytest.raises(InvalidSubscription, match="are off.*CREATE ROLE"):
        predicates.check(connection, "true")


def test_one_that_is_refused_is_stored_by_nobody(dispatch: Callable[[], None]) -> None:
    with pytest.raises(InvalidSubscription), transaction.atomic():
        create("curious", "EXISTS (SELECT FROM pg_class)")

    assert not Subscription.objects.filter(pk="curious").exists()
