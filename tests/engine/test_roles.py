"""What a role of PostgreSQL needs: no superuser, and no table of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from django.db import DatabaseError, ProgrammingError, connections, transaction
from django.utils import timezone
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier
from pytest_django import DjangoDbBlocker

from pgqueue import (
    NO_EVENT,
    Channel,
    PositionConflict,
    acting_as,
    batch,
    flow,
    publish,
    publish_later,
    publish_many,
    read,
    send,
    webhooks,
)
from pgqueue.compat.celery import linking
from pgqueue.durable import cleaning, signal
from pgqueue.duties.all import all_duties
from pgqueue.duties.maintain import maintain
from pgqueue.engine import event_partitions, expire, lease, partitions, promote, received, settle
from pgqueue.events import (
    dead_events,
    groups,
    later,
    subscribing,
    subscriptions,
)
from pgqueue.exceptions import ChannelFull, MessageEnded
from pgqueue.models import (
    Breaker,
    Event,
    History,
    Message,
    Schedule,
    StoredSignal,
    Subscription,
    Webhook,
)
from pgqueue.models import Channel as Row
from pgqueue.operating import bulk
from pgqueue.operating.roles import PARTS, script
from pgqueue.tasks import latches, registry, scheduling
from pgqueue.testing import run_all
from pgqueue.webhooks import delivering
from tests import jobs
from tests.claims import GovernedClaims
from tests.collecting_jobs import index as collected
from tests.eventually import eventually
from tests.factories import (
    OVER,
    Connection,
    bury,
    claim,
    done,
    enqueue,
    limit,
    one,
    register,
    run,
    schedule,
)
from tests.processes import database_url, starting


@pytest.fixture
def role(connection: Connection) -> Iterator[str]:
    """A role that may nothing so far."""
    name = f"role_{uuid4().hex}"
    connection.execute(f"CREATE ROLE {name}")
    yield name
    connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_worker_need_only_read_and_write_rows(
    connection: Connection, other: Connection, role: str
) -> None:
    connection.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}; "
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role}"
    )
    limit("ruled", max_running=1)
    other.execute(f"SET ROLE {role}")

    register(other, notify_for=timedelta(minutes=1))
    enqueue(other, 2)
    enqueue(other, 2, channel="ruled", key="a")
    schedule(other, run_after=timedelta())
    promote.promote(other)
    claim(other, limit=1, lease=OVER)
    lease.rescue(other, max_lost=3)
    claims = [*claim(other), *GovernedClaims(other).claim(9)]

    assert len(claims) == 4
    assert len(settle.complete(other, [done(each) for each in claims])) == 4


def test_a_producer_may_be_let_in_by_a_function_alone(
    connection: Connection, other: Connection, role: str
) -> None:
    connection.execute(
        """CREATE FUNCTION send_mail(payload jsonb) RETURNS bigint
           LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
           AS $$ SELECT pgqueue_enqueue('', payload, channel => 'mail') $$"""
    )
    try:
        other.execute(f"SET ROLE {role}")

        other.execute("""SELECT send_mail('{"to": "ada"}')""")

        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            other.execute("SELECT pgqueue_enqueue('', channel => 'chat')")
    finally:
        connection.execute("DROP FUNCTION send_mail")

    message = Message.objects.get()
    assert (message.channel, message.payload) == ("mail", {"to": "ada"})


def test_a_login_without_rights_stops_neither_the_log_nor_governed_lanes(
    connection: Connection, other: Connection, role: str
) -> None:
    limit("default", max_running=1)
    other.execute(f"SET ROLE {role}")
    for key in (
        "'pgqueue_bell'::regclass::oid::bigint",
        "hashtextextended('sequence', 'pgqueue_event'::regclass::oid::bigint)",
    ):
        other.execute(f"SELECT pg_advisory_lock({key})")
    with pytest.raises(InsufficientPrivilege):
        other.execute("SELECT FROM pgqueue_lock FOR UPDATE")
    publish("order.paid")
    enqueue(connection, key="a")

    assert len(read()) == 1
    assert len(GovernedClaims(connection).claim(9)) == 1


@pytest.fixture(scope="module")
def prefix(broom: Connection, django_db_blocker: DjangoDbBlocker) -> Iterator[str]:
    """What the names of the roles begin with that the script has made, twice."""
    prefix = f"r{uuid4().hex[:12]}_"
    text = script(broom, prefix=prefix)
    broom.execute(text)
    broom.execute(text)
    yield prefix
    for part in PARTS:
        name = Identifier(prefix + part)
        broom.execute(SQL("DROP OWNED BY {}").format(name))
        broom.execute(SQL("DROP ROLE {}").format(name))


@pytest.fixture(autouse=True)
def _aliases(request: pytest.FixtureRequest) -> Iterator[None]:
    """An alias of the database for each role, whose sessions have that role."""
    if "prefix" not in request.fixturenames:
        yield
        return
    prefix = request.getfixturevalue("prefix")
    settings = connections["default"].settings_dict
    for part in PARTS:
        options = {**settings["OPTIONS"], "options": f"-c role={prefix}{part}"}
        connections.databases[part] = {**settings, "OPTIONS": options}
    yield
    for part in PARTS:
        connections[part].close()
        del connections[part]
        del connections.databases[part]


def refused(part: str, *statements: str) -> None:
    """Check that a role may do none of these."""
    for statement in statements:
        with connections[part].cursor() as cursor:
            with pytest.raises(Exception) as raised:
                cursor.execute(statement)
            assert isinstance(raised.value.__cause__, InsufficientPrivilege), statement


def tables(connection: Connection) -> list[str]:
    """Return all tables of ours, but for partitions."""
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relname ~ '^pgqueue_' AND relkind IN ('r', 'p') "
        "AND NOT relispartition AND relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    return [name for (name,) in rows]


def rights(connection: Connection, prefix: str) -> set[tuple[Any, ...]]:
    """Return everything that is granted to the roles."""
    rows = connection.execute(
        "SELECT table_name, NULL, grantee, privilege_type FROM information_schema.table_privileges "
        "WHERE starts_with(grantee, %(prefix)s) UNION "
        "SELECT table_name, column_name, grantee, privilege_type "
        "FROM information_schema.column_privileges WHERE starts_with(grantee, %(prefix)s)",
        {"prefix": prefix},
    )
    return set(rows)


LETTERS = {"INSERT": "a", "SELECT": "r", "UPDATE": "w", "DELETE": "d"}
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "roles.md"


def granted(connection: Connection, prefix: str) -> list[str]:
    """Return the rows of the guide that tell what each role may do with each object of ours."""
    relations = connection.execute(
        "SELECT relname, relkind::text, ARRAY(SELECT attname::text FROM pg_attribute a "
        "WHERE a.attrelid = c.oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum) "
        "FROM pg_class c WHERE relname ~ '^pgqueue_' AND relkind IN ('r', 'p', 'v', 'm', 'S') "
        "AND NOT relispartition AND relnamespace = 'public'::regnamespace "
        "ORDER BY relkind = 'S', relname COLLATE \"C\""
    ).fetchall()
    rows = []
    for name, kind, columns in relations:
        ask = _of_sequence if kind == "S" else _of_table
        cells = [ask(connection, prefix + part, name, columns) for part in PARTS]
        rows.append(
            f"| `{name}` | {' | '.join(cells)} |".replace("|  |", "| |").replace("|  |", "| |")
        )
    return rows


def _of_table(connection: Connection, role: str, name: str, columns: list[str]) -> str:
    whole, parts = "", []
    others = "TRUNCATE, REFERENCES, TRIGGER"
    assert one(connection, "SELECT has_table_privilege(%s, %s, %s)", role, name, others) == (False,)
    for word, letter in LETTERS.items():
        if one(connection, "SELECT has_table_privilege(%s, %s, %s)", role, name, word)[0]:
            whole += letter
        elif word != "DELETE":
            (mine,) = one(
                connection,
                "SELECT ARRAY(SELECT c FROM unnest(%s::text[]) c "
                "WHERE has_column_privilege(%s, %s, c, %s))",
                columns, role, name, word,
            )  # fmt: skip
            parts += [f"{letter} ({', '.join(mine)})"] if mine else []
    return ", ".join([*([whole] if whole else []), *parts])


def _of_sequence(connection: Connection, role: str, name: str, _: object) -> str:
    words = [
        word
        for word in ("USAGE", "SELECT", "UPDATE")
        if one(connection, "SELECT has_sequence_privilege(%s, %s, %s)", role, name, word)[0]
    ]
    return ", ".join(words)


def definers(connection: Connection, prefix: str) -> list[str]:
    """Return the rows of the guide that tell who may call the functions that run as the owner."""
    functions = connection.execute(
        "SELECT proname, oid FROM pg_proc WHERE proname ~ '^pgqueue_' AND prosecdef "
        "AND proname !~ '^pgqueue_track_' AND pronamespace = 'public'::regnamespace ORDER BY 1"
    ).fetchall()
    return [
        f"| `{name}` | "
        + ", ".join(
            part
            for part in (*PARTS, "public")
            if one(connection, "SELECT has_function_privilege(%s, %s::oid, 'EXECUTE')",
                   "public" if part == "public" else prefix + part, oid)[0]
        )
        + " |"
        for name, oid in functions
    ]  # fmt: skip


class TestEveryGrant:
    """The guide lists each; nobody has another one."""

    def test_is_in_the_guide_which_lists_no_others(
        self, connection: Connection, prefix: str
    ) -> None:
        found = granted(connection, prefix) + definers(connection, prefix)

        told = [line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("| `pgq")]
        assert len(found) > 40
        assert told == found, "\n".join(found)


class TestTheScript:
    def test_decides_about_every_table(self, connection: Connection, prefix: str) -> None:
        unseen = {
            part: [
                name
                for name in tables(connection)
                if not one(connection, "SELECT has_any_column_privilege(%s, %s, 'SELECT')",
                           prefix + part, name)[0]
            ]
            for part in ("worker", "operator", "reader")
        }  # fmt: skip

        assert unseen == {
            "worker": ["pgqueue_reserved"],
            "operator": ["pgqueue_lock", "pgqueue_purged", "pgqueue_reserved"],
            "reader": ["pgqueue_reserved", "pgqueue_staged"],
        }

    def test_takes_back_what_it_does_not_grant_and_else_changes_nothing(
        self, connection: Connection, prefix: str
    ) -> None:
        before = rights(connection, prefix)
        connection.execute(f"GRANT DELETE, SELECT (payload) ON pgqueue_message TO {prefix}producer")
        assert rights(connection, prefix) > before

        connection.execute(script(connection, prefix=prefix))

        assert rights(connection, prefix) == before

    def test_leaves_the_tables_of_others_alone(self, connection: Connection, prefix: str) -> None:
        connection.execute(f"GRANT SELECT ON auth_user TO {prefix}reader")

        connection.execute(script(connection, prefix=prefix))

        assert one(connection, "SELECT has_table_privilege(%s, 'auth_user', 'SELECT')",
                   f"{prefix}reader") == (True,)  # fmt: skip
        assert {name for name, *_ in rights(connection, prefix)} - {"auth_user"} == {
            name for name, *_ in rights(connection, prefix) if name.startswith("pgqueue_")
        }

    def test_gives_later_partitions_the_rights_of_their_table(
        self, connection: Connection, prefix: str
    ) -> None:
        assert partitions._make(connection, "public", date(2020, 2, 1))
        assert event_partitions._make(connection, "public", 77)
        try:
            for name in ("pgqueue_history_20200201", "pgqueue_event_77"):
                for part in ("worker", "operator", "reader"):
                    with connections[part].cursor() as cursor:
                        cursor.execute(f"SELECT * FROM {name}")  # noqa: S608
                refused("producer", f"SELECT * FROM {name}")  # noqa: S608
        finally:
            connection.execute("DROP TABLE pgqueue_history_20200201, pgqueue_event_77")

    def test_is_printed_by_a_command(self, connection: Connection) -> None:
        output = StringIO()
        call_command("pgqueue_roles", "--prefix=shop_", stdout=output)

        assert output.getvalue().strip() == script(connection, prefix="shop_").strip()
        assert "'shop_producer'" in output.getvalue()
        with pytest.raises(CommandError, match="must not begin with pg_"):
            call_command("pgqueue_roles", "--prefix=pg_")

    def test_is_for_the_schema_that_has_the_tables(self, connection: Connection) -> None:
        with connection.transaction(force_rollback=True):
            connection.execute('CREATE SCHEMA "My queue"; ALTER TABLE pgqueue_message '
                               'SET SCHEMA "My queue"; SET search_path = "My queue"')  # fmt: skip

            assert "place constant text := 'My queue';" in script(connection)


class TestAProducer:
    def test_enqueues_in_every_way(self, connection: Connection, prefix: str) -> None:
        Channel("bounded").policy(max_size=1)
        Channel("bounded").policy(max_running=1, each_key=True)
        Channel("watched").configure(watched=True)
        register(connection, notify_for=timedelta(minutes=1))
        add = jobs.add.using(database="producer")

        add.enqueue(1)
        add.enqueue_many([(n,) for n in range(3)])
        add.using(run_after=60, ttl=100).enqueue(1)
        add.using(key="a", ordered=True).enqueue(1)
        add.using(channel="watched").enqueue(1)
        add.hold(for_=60).enqueue(1)
        add.using(channel="bounded", key="a").enqueue(1)
        with pytest.raises(ChannelFull):
            add.using(channel="bounded", key="a").enqueue(1)
        send("mail", {"to": "ada"}, database="producer")
        with batch(database="producer") as work:
            work.enqueue(add, 1)
            work.enqueue(add.using(dedupe_key="in a batch"), 1)
        with flow("producer's", database="producer") as f:
            last = f.enqueue(add, f.enqueue(add, 1))
            f.enqueue(add.using(dedupe_key="in a flow"), last)
            f.enqueue_many(add.using(dedupe_key=str), [(1,), (2,)])
        with connections["producer"].cursor() as cursor:
            cursor.execute("SELECT pgqueue_enqueue('tests.jobs.add')")

        assert Message.objects.count() == 18
        assert Message.objects.filter(flow_id=f.id).count() == 5

    def test_sends_signals_and_reads_none(self, connection: Connection, prefix: str) -> None:
        add = jobs.add.using(database="producer", dedupe_key="order:17")
        result = add.enqueue(1)

        assert result.signal("approved", {"by": "ann"}, dedupe_id="1")
        assert not signal(
            None, "approved", dedupe_key="order:17", dedupe_id="1", database="producer"
        )
        with pytest.raises(MessageEnded):
            signal(-1, "approved", database="producer")
        with connections["producer"].cursor() as cursor:
            cursor.execute(
                "SELECT pgqueue_signal_v1(%s, 'approved', sender => 1)", [int(result.id)]
            )
            cursor.execute(
                "SELECT pgqueue_produce_signal_v1(%s, 'approved', NULL, NULL, 1)", [int(result.id)]
            )

        refused("producer", "SELECT * FROM pgqueue_signal")
        refused("producer", "INSERT INTO pgqueue_signal (message_id, name) VALUES (1, 'a')")
        refused("producer", "SELECT pgqueue_signal_v1(1, '@event:paid')")
        refused("reader", "SELECT pgqueue_signal_v1(1, 'approved')")
        assert set(StoredSignal.objects.values_list("sender_id", flat=True)) == {None}
        assert StoredSignal.objects.count() == 3

    def test_is_told_of_duplicates_and_no_more(self, connection: Connection, prefix: str) -> None:
        add = jobs.add.using(database="producer", dedupe_key="once", dedupe_for=60)

        with transaction.atomic(using="producer"):
            first, second = add.enqueue(1), add.enqueue(2)
            add.enqueue_many([(3,), (4,)])

        assert (first.came_of, second.came_of, second.id) == ("stored", "existing", first.id)
        assert Message.objects.get().payload == {"args": [1], "kwargs": {}}

    def test_publishes(self, connection: Connection, prefix: str) -> None:
        publish("order.paid", {"order": 7}, key="ada", database="producer")
        with transaction.atomic(using="producer"):
            publish_many([("order.paid", {"order": 8})], database="producer")
        with connections["producer"].cursor() as cursor:
            cursor.execute("SELECT pgqueue_publish('order.paid')")

        assert len(read()) == 3

    @pytest.mark.parametrize("part", ["producer", "operator", "worker"])
    def test_publishes_with_conditions(
        self, connection: Connection, prefix: str, part: str
    ) -> None:
        publish("order.paid", key="7", expect=NO_EVENT, database=part)
        publish("order.paid", key="8", if_none_since=("order.paid", "9", 0), database=part)

        with pytest.raises(PositionConflict):
            publish("order.paid", key="7", expect=NO_EVENT, database=part)

        assert len(read()) == 2

    def test_reads_no_content_and_changes_nothing(
        self, connection: Connection, prefix: str
    ) -> None:
        enqueue(connection)
        publish("order.paid", {"order": 7})

        refused(
            "producer",
            *("SELECT * FROM pgqueue_message", "SELECT payload FROM pgqueue_message"),
            *("SELECT body, metadata, errors, progress FROM pgqueue_message",),
            *("SELECT * FROM pgqueue_history", "SELECT * FROM pgqueue_event"),
            *("SELECT payload FROM pgqueue_event_inbox", "SELECT * FROM pgqueue_webhook"),
            *("UPDATE pgqueue_message SET state = 'dead'", "DELETE FROM pgqueue_message"),
            *("UPDATE pgqueue_dedupe SET channel = ''", "DELETE FROM pgqueue_dedupe"),
            *("INSERT INTO pgqueue_history (id) VALUES (1)", "DELETE FROM pgqueue_event_inbox"),
            *("INSERT INTO pgqueue_event (position) VALUES (1)",),
            *("UPDATE pgqueue_channel SET paused = true", "DELETE FROM pgqueue_policy"),
            *("TRUNCATE pgqueue_message", "ALTER TABLE pgqueue_message ADD x int"),
            *("SELECT pgqueue_enqueue('a', dedupe_key => 'k', replaces => true)",),
        )

    def test_writes_to_no_table_and_takes_no_number(
        self, connection: Connection, prefix: str
    ) -> None:
        enqueue(connection)

        refused(
            "producer",
            "INSERT INTO pgqueue_message (id, channel, task, state, max_attempts) "
            "SELECT max(id) + 1, 'c', 't', 'ready', 1 FROM pgqueue_message",
            "INSERT INTO pgqueue_message (channel, task, state, max_attempts, attempt) "
            "VALUES ('c', 't', 'running', 1, 2147483647)",
            "COPY pgqueue_message (channel, task, state, max_attempts) FROM STDIN",
            "INSERT INTO pgqueue_bell (channel, ended) VALUES ('', '{1}')",
            "INSERT INTO pgqueue_blocked (message_id, flow_id, watched_id, on_failure) "
            "VALUES (1, 1, 1, 'run')",
            "INSERT INTO pgqueue_event_inbox (id, topic, key, metadata) VALUES (1, 'a', '', '{}')",
            "INSERT INTO pgqueue_operation (message_id) VALUES (1)",
            "SELECT nextval('pgqueue_message_id_seq')",
            "SELECT setval('pgqueue_message_id_seq', 1)",
            "SELECT FROM pgqueue_lock FOR UPDATE",
            "SELECT * FROM pgqueue_reserved",
        )

    def test_adds_nothing_to_a_stored_flow_and_waits_for_none(
        self, connection: Connection, prefix: str
    ) -> None:
        add = jobs.add.using(database="producer")
        with flow("first", database="producer") as f:
            f.enqueue(add, 1)

        with pytest.raises(ProgrammingError, match="permission denied"), f:
            f.enqueue(add, 2)
        with (
            pytest.raises(ProgrammingError, match="permission denied"),
            flow("second", after=f, database="producer") as second,
        ):
            second.enqueue(add, 3)

        assert Message.objects.count() == 1

    def test_uses_only_ids_that_its_own_transaction_has_reserved(
        self, connection: Connection, prefix: str
    ) -> None:
        [next_id] = one(connection, "SELECT last_value + 7 FROM pgqueue_message_id_seq")
        reserved = (
            "SELECT pgqueue_produce_v1('c', '', 't', '{}', NULL, '{}', NULL, 0::smallint, 1, NULL, "
            "NULL, NULL, NULL, NULL, false, NULL, NULL, false, %s, NULL, false)"
        )
        with connections["producer"].cursor() as cursor:
            cursor.execute("SELECT pgqueue_reserve_v1(3)")
            [([old, *_],)] = cursor.fetchall()
        refused(
            "producer",
            reserved % next_id,
            reserved % old,
            f"SELECT pgqueue_begin_flow_v1({next_id}, 'f', NULL, '{{}}')",
            f"SELECT pgqueue_produce_waits_v1(1, '{{{next_id}}}', '{{run}}', '{{1}}', '{{1}}')",
        )

        assert not Message.objects.exists()
        with transaction.atomic(using="producer"), connections["producer"].cursor() as cursor:
            cursor.execute("SELECT pgqueue_reserve_v1(3)")
            [(ids,)] = cursor.fetchall()
            cursor.execute(reserved % ids[1])
        assert Message.objects.get().id == ids[1]

    def test_leaves_no_reservations(self, connection: Connection, prefix: str) -> None:
        def reserved() -> Any:
            """Reserve once more, which removes what ended transactions have left."""
            with batch(database="producer") as work:
                work.enqueue(jobs.add.using(database="producer"), 1)
            return one(connection, "SELECT count(*) FROM pgqueue_reserved")[0]

        for _ in range(3):
            reserved()

        # The last one, and no others but those that a transaction elsewhere may still see.
        eventually(lambda: reserved() == 1)

    def test_enqueues_none_of_pgqueues_own_tasks(self, connection: Connection, prefix: str) -> None:
        # Imported here, whatever other tests have imported.
        modules = (bulk, cleaning, latches, later, dead_events, delivering, linking)
        own = [each for each in registry.each() if each.name.startswith("pgqueue.")]
        assert {each.func.__module__ for each in own} == {each.__name__ for each in modules}
        allowed = set()
        for task in own:
            with connections["producer"].cursor() as cursor, suppress(DatabaseError):
                cursor.execute("SELECT pgqueue_enqueue(%s)", [task.name])
                allowed.add(task.name)

        assert {"pgqueue.operating.bulk.operate", "pgqueue.operating.bulk.purge"} < {
            each.name for each in own
        }
        assert allowed == {
            "pgqueue.events.later.publish_now",
            "pgqueue.compat.celery.linking.call_errback",
        }
        with pytest.raises(DatabaseError, match="a task of pgqueue itself"):
            bulk.operate.using(database="producer").enqueue_many([("discard", 9, {})] * 2)

    def test_is_named_beside_whoever_it_says_acts(
        self, connection: Connection, prefix: str
    ) -> None:
        [login] = one(connection, "SELECT session_user::text")
        forged = {"acting": {"user": 1, "session_user": "somebody"}}
        jobs.add.using(database="producer", metadata=forged).enqueue(1)
        jobs.add.using(database="producer", metadata=forged).enqueue_many([(1,), (2,)])
        with acting_as(user="ada", reason="refund"):
            publish("one", database="producer")
            publish_many([("two",), ("three",)], database="producer")
            publish_later("later", run_after=0, database="producer")
            publish("owners")
        with connections["producer"].cursor() as cursor:
            cursor.execute("SELECT pgqueue_publish('text', metadata => '{\"acting\": \"bob\"}')")
        run_all()

        stored = History.objects.filter(task=jobs.add.name).values_list("metadata", flat=True)
        assert list(stored) == [{"acting": {"user": 1, "session_user": login}}] * 3
        ada = {"user": "ada", "reason": "refund"}
        said = {each.topic: each.metadata["acting"] for each in read()}
        assert said.pop("owners") == ada
        assert said.pop("text") == {"user": "bob", "session_user": login}
        marked = {**ada, "session_user": login}
        assert said == {"one": marked, "two": marked, "three": marked, "later": marked}

    def test_is_named_by_the_triggers_of_tables_too(
        self, connection: Connection, prefix: str
    ) -> None:
        login = f"{prefix}web"
        connection.execute(f"CREATE ROLE {login} IN ROLE {prefix}producer")
        acting = (
            "SELECT pgqueue_acting_v1()::text "
            "FROM (SELECT set_config('pgqueue.acting', 'ada', true)) said"
        )
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(f"SET SESSION AUTHORIZATION {login}")
                (of_a_producer,) = one(connection, acting)
            with connection.transaction(force_rollback=True):
                (of_the_owner,) = one(connection, acting)
        finally:
            connection.execute(f"DROP OWNED BY {login}; DROP ROLE {login}")

        assert json.loads(of_a_producer) == {"user": "ada", "session_user": login}
        assert json.loads(of_the_owner) == {"user": "ada"}

    def test_remembers_ids_of_messages_from_outside(
        self, connection: Connection, prefix: str
    ) -> None:
        with transaction.atomic(using="producer"):
            lasting = timedelta(hours=1)
            found = received.remember(connections["producer"], ["a", "b", "a"], lasting=lasting)
            again = received.remember(connections["producer"], ["b", "c"], lasting=lasting)

        assert (found, again) == ({"a", "b"}, {"c"})

    def test_is_deceived_by_no_table_or_function_of_its_own(
        self, connection: Connection, prefix: str
    ) -> None:
        with connections["producer"].cursor() as cursor:
            cursor.execute(
                "CREATE TEMP TABLE pgqueue_message (id bigint, channel text); "
                "SET search_path = pg_temp, public"
            )
            cursor.execute(
                "SELECT public.pgqueue_produce_now_v1('c', '', 'tests.jobs.add', '{}', NULL, '{}', "
                "NULL, 0::smallint, 1, NULL, NULL)"
            )

        assert Message.objects.count() == 1
        assert one(
            connection,
            "SELECT count(*) FROM pg_proc WHERE prosecdef AND proname ~ '^pgqueue_(produce|work)_' "
            "AND proconfig[1] IS DISTINCT FROM 'search_path=public, pg_temp'",
        ) == (0,)


class TestAWorker:
    def test_does_every_duty_but_making_partitions(
        self, connection: Connection, prefix: str
    ) -> None:
        publish("order.paid", {"order": 7})
        limit(max_running=1)
        enqueue(connection, 2, key="a")
        schedule(connection, expires_after=timedelta(microseconds=1))
        subscriptions.create("all", task=jobs.anything, topics="**", start="beginning")
        duties = all_duties(database="worker", scheduling=scheduling, subscribing=subscribing)

        reports = {each.name: each for each in maintain("worker", duties)}

        assert {name: str(each.error) for name, each in reports.items() if each.error} == {}
        assert len(reports) == len(duties)
        assert Message.objects.filter(task="tests.jobs.anything").exists()

    def test_runs_tasks_schedules_and_subscriptions_in_a_process(
        self, connection: Connection, prefix: str
    ) -> None:
        login = f"{prefix}login"
        connection.execute(f"CREATE ROLE {login} LOGIN PASSWORD 'secret' IN ROLE {prefix}worker")
        try:
            subscriptions.create("all", task=jobs.anything, topics="**")
            Channel("default").policy(max_running=5, breaker=(1, 60, 0.001))
            jobs.add.enqueue(1, 2)
            jobs.fail.enqueue("no such order")
            jobs.attempt_number_atomically.enqueue()
            url = database_url()
            account, at, rest = url.removeprefix("postgresql://").rpartition("@")
            assert at
            with starting("--drain", database=f"postgresql://{login}:secret@{rest}") as worker:
                assert worker.exit_status(within=30) == 0
        finally:
            connection.execute(f"DROP OWNED BY {login}; DROP ROLE {login}")

        assert "denied" not in worker.log
        assert History.objects.filter(outcome="succeeded").count() == 2
        assert Message.objects.dead().count() == 1
        assert account

    def test_evaluates_conditions_in_sql(self, connection: Connection, prefix: str) -> None:
        for part in ("worker", "operator"):
            assert one(connection, "SELECT pg_has_role(%s, 'pgqueue_predicates', 'MEMBER')",
                       prefix + part) == (True,)  # fmt: skip

    def test_resumes_a_channel_when_its_pause_is_over(
        self, connection: Connection, prefix: str
    ) -> None:
        Row.objects.create(name="mail", paused=True, paused_until=timezone.now())

        with connection.transaction():
            connection.execute(SQL("SET LOCAL ROLE {}").format(Identifier(f"{prefix}worker")))
            assert expire.resume(connection) == 1

        assert not Row.objects.get().paused

    def test_configures_nothing_and_makes_no_tables(
        self, connection: Connection, prefix: str
    ) -> None:
        refused(
            "worker",
            *("UPDATE pgqueue_channel SET paused = true", "DELETE FROM pgqueue_channel"),
            *("DELETE FROM pgqueue_policy", "UPDATE pgqueue_policy SET rate = 1"),
            *("DELETE FROM pgqueue_webhook", "DELETE FROM pgqueue_event"),
            *("UPDATE pgqueue_history SET result = NULL", "UPDATE pgqueue_event SET key = ''"),
            *("CREATE TABLE pgqueue_history_20200201 PARTITION OF pgqueue_history FOR VALUES "
              "FROM ('2020-02-01 00:00Z') TO ('2020-02-02 00:00Z')",),
            *("DROP TABLE pgqueue_history", "TRUNCATE pgqueue_message"),
        )  # fmt: skip


class TestAnOperator:
    def test_does_what_the_admin_and_the_commands_do(
        self, connection: Connection, prefix: str
    ) -> None:
        dead, waiting = bury(connection, 3, channel="mail"), enqueue(connection, 3, channel="mail")
        Schedule.objects.create(name="nightly", task="tests.jobs.add", cron="0 3 * * *", args=[1])
        mail = Channel("mail", database="operator")

        assert mail.replay(dead[0]).done == {dead[0]}
        assert mail.discard(dead[1]).done == {dead[1]}
        first, second = (each.id for each in run(connection, 2, channel="post"))
        Channel("post", database="operator").cancel(second)
        released = Message.objects.using("operator").filter(pk__in=[first, second]).release()
        assert released.done == {first, second}
        assert Message.objects.using("operator").filter(pk=first).cancel().done == {first}
        assert mail.cancel(waiting[0]).done == {waiting[0]}
        assert mail.trim(keep=2) == 1
        assert mail.purge() == 3
        mail.policy(max_running=3)
        mail.policy(max_running=4)
        mail.configure(retention=60, watched=True)
        assert mail.pause()
        Breaker.objects.create(
            channel="mail", key="", failed_at=[], open_until=timezone.now() + timedelta(hours=1)
        )
        assert mail.resume()
        assert not Breaker.objects.exists()
        assert mail.stats().ready == 0
        assert mail.remove_policy()
        scheduling.run("nightly", database="operator")
        Schedule.objects.using("operator").pause()
        jobs.add.using(database="operator", on_conflict="replace", dedupe_key="a").enqueue(1)
        jobs.add.using(database="operator", on_conflict="replace", dedupe_key="a").enqueue(2)
        jobs.add.using(database="operator").hold(for_=60).enqueue(1).commit()
        for n in (1, 2):
            collected.using(database="operator", run_after=None).enqueue([n])

        assert Message.objects.count() == 4
        assert Message.objects.get(task=collected.name).payload["args"] == [[1, 2]]
        assert History.objects.count() == 8

    def test_operates_the_event_log(self, connection: Connection, prefix: str) -> None:
        publish("order.paid", {"order": 7}, database="operator")
        assert len(read()) == 1
        groups.make("billing", partitions=2, start="now", database="operator")
        groups.reset("billing", "beginning", database="operator")
        groups.delete("billing", database="operator")
        subscriptions.create("all", task=jobs.anything, topics="**", database="operator")
        Subscription.objects.using("operator").pause()
        Subscription.objects.using("operator").resume()
        webhooks.create("shop", "https://example.com/hook", database="operator")
        webhooks.rotate("shop", database="operator")
        webhooks.delete("shop", database="operator")
        subscriptions.delete("all", database="operator")

        assert not Webhook.objects.exists()
        assert [each.topic for each in read(database="operator")] == ["order.paid"]

    def test_rewrites_no_history_and_makes_no_tables(
        self, connection: Connection, prefix: str
    ) -> None:
        refused(
            "operator",
            *("UPDATE pgqueue_history SET result = NULL", "DELETE FROM pgqueue_history"),
            "INSERT INTO pgqueue_history (id, channel, task, outcome) VALUES (1, 'a', 'b', 'c')",
            "SELECT pgqueue_end_v1('{1}', 'succeeded')",
            *("DELETE FROM pgqueue_message", "UPDATE pgqueue_message SET errors = '[]'"),
            "UPDATE pgqueue_message SET attempt = 0",
            *("UPDATE pgqueue_event SET key = ''", "DELETE FROM pgqueue_event"),
            "INSERT INTO pgqueue_event (position, topic, key, metadata, created_at) "
            "VALUES (1999999, 'a', '', '{}', now())",
            *("DELETE FROM pgqueue_event_inbox", "SELECT FROM pgqueue_lock FOR UPDATE"),
            *("DELETE FROM pgqueue_worker", "UPDATE pgqueue_duty SET due_at = now()"),
            *("TRUNCATE pgqueue_message", "ALTER TABLE pgqueue_message ADD x int"),
            *("DROP TABLE pgqueue_history", "CREATE TABLE pgqueue_mine (id int)"),
        )


class TestAReader:
    def test_leaves_it_to_others_to_give_positions(
        self, connection: Connection, prefix: str
    ) -> None:
        publish("order.paid")
        assert read(database="reader") == read(database="operator") == []

        assert len(read()) == len(read(database="reader")) == 1

    def test_sees_what_there_is(self, connection: Connection, prefix: str) -> None:
        ids = enqueue(connection, 2, channel="mail")
        publish("order.paid", {"order": 7})
        read()

        for model in apps.get_app_config("pgqueue").get_models():
            if model._meta.db_table not in ("pgqueue_webhook", "pgqueue_staged"):
                list(model._base_manager.using("reader").all())
        assert Channel.all_stats(database="reader")["mail"].ready == 2
        assert jobs.add.using(database="reader").alias == "reader"
        for words in (
            ["pgqueue_list"],
            ["pgqueue_flows"],
            ["pgqueue_flows", "--state=stopped"],
            ["pgqueue_show", str(ids[0])],
            ["pgqueue_channel", "list"],
            ["pgqueue_schedule", "list"],
        ):
            call_command(*words, "--database=reader", stdout=StringIO())
        for name in ("pgqueue_group", "pgqueue_subscription"):
            call_command(name, "--database=reader", "list", stdout=StringIO())
        assert Event.objects.using("reader").count() == 1

    def test_sees_no_secrets(self, connection: Connection, prefix: str) -> None:
        webhooks.create("shop", "https://example.com/hook")

        rows = Webhook.objects.using("reader").values_list("subscription_id", "enabled")
        assert list(rows) == [("shop", True)]
        for column in ("secret", "rotated", "headers", "url"):
            refused("reader", f"SELECT {column} FROM pgqueue_webhook")  # noqa: S608

    @pytest.mark.parametrize("verb", ["INSERT", "UPDATE", "DELETE", "TRUNCATE"])
    def test_changes_nothing(self, connection: Connection, prefix: str, verb: str) -> None:
        for name in tables(connection):
            assert one(connection, "SELECT has_table_privilege(%s, %s, %s)",
                       f"{prefix}reader", name, verb) == (False,), name  # fmt: skip
        refused(
            "reader",
            "SELECT nextval('pgqueue_message_id_seq')",
            "SELECT pgqueue_enqueue('tests.jobs.add')",
            "SELECT pgqueue_publish('order.paid')",
        )
