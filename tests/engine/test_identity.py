"""Which database it is: one of its own, also for a copy; another one after a restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pgqueue.engine import identity
from pgqueue.engine.values import Position
from tests.factories import Connection, ended, logged, one

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "second"])
Connect = Callable[..., Connection]


@pytest.fixture
def _as_it_was(connection: Connection) -> Iterator[None]:
    [before] = one(connection, "SELECT id FROM pgqueue_identity")
    yield
    connection.execute("UPDATE pgqueue_identity SET id = %s", [before])


def test_is_the_same_for_each_session(connection: Connection, connect: Connect) -> None:
    assert identity.of(connection) == identity.of(connect()) != ""


@pytest.mark.usefixtures("_as_it_was")
def test_is_another_one_for_a_copy_on_the_same_server(
    connection: Connection, connect: Connect
) -> None:
    [id] = one(connect("second"), "SELECT id FROM pgqueue_identity")
    connection.execute("UPDATE pgqueue_identity SET id = %s", [id])

    ours, theirs = identity.of(connection), identity.of(connect("second"))

    assert ours.endswith(f"/{id}")
    assert theirs.endswith(f"/{id}")
    assert ours != theirs


@pytest.mark.usefixtures("_as_it_was")
def test_is_another_one_after_a_restore_that_is_told(connection: Connection) -> None:
    before = identity.of(connection)

    after = identity.renew(connection)

    assert before != after == identity.of(connection)


class TestAMarkOfAnEventThatIsGone:
    """Its position is remembered elsewhere, and the event has been removed."""

    @pytest.fixture
    def mark(self, connection: Connection) -> str:
        logged(connection, 5)
        mark = identity.mark_at(connection, 5)
        connection.execute("DELETE FROM pgqueue_event")
        return mark

    def removed(self, connection: Connection, upto: int) -> None:
        connection.execute(
            "INSERT INTO pgqueue_log_floor (log, position) VALUES ('event', %s)", [upto]
        )

    def test_is_known_where_retention_has_removed_it(
        self, connection: Connection, mark: str
    ) -> None:
        self.removed(connection, 5)

        assert identity.is_marked(connection, 5, mark)

    def test_is_not_known_where_retention_has_not(self, connection: Connection, mark: str) -> None:
        self.removed(connection, 4)

        assert not identity.is_marked(connection, 5, mark)

    def test_is_not_known_where_it_is_of_another_database(self, connection: Connection) -> None:
        self.removed(connection, 5)

        assert not identity.is_marked(connection, 5, identity.mark("another", 1))


def test_there_is_one_alone(connection: Connection) -> None:
    identity.renew(connection)

    assert one(connection, "SELECT count(*) FROM pgqueue_identity") == (1,)


def test_a_row_is_known_by_when_it_ended(connection: Connection) -> None:
    ended(connection)
    id, txid, at = one(connection, "SELECT id, txid, finished_at FROM pgqueue_history")

    assert identity.of_history(connection, Position(txid, id)) == round(at.timestamp() * 1e6)
    assert identity.of_history(connection, Position(txid, id + 1)) is None
    assert identity.of_event(connection, 1) is None
