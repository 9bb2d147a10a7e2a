"""What becomes of the connections that a thread's tasks opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import Any
from unittest.mock import Mock

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.errors import FeatureNotSupported, QueryCanceled, ReadOnlySqlTransaction

from pgqueue import Retry
from pgqueue.connections import connect
from pgqueue.outcomes import Deferred, HandedBack, Outcome, Retried
from pgqueue.tasks import Task
from pgqueue.worker import closing
from pgqueue.worker.handlers import Handlers
from pgqueue.worker.held import Held, Holding
from pgqueue.worker.quarantine import Quarantine
from pgqueue.worker.runner import Runner
from pgqueue.worker.timeouts import Timeouts
from tests import jobs
from tests.factories import claim

Close = Callable[[], None]

BOTH = pytest.mark.parametrize(
    "close", [closing.close_old_connections, closing.close_broken_connections]
)


def opened(monkeypatch: pytest.MonkeyPatch, *wrappers: Mock) -> None:
    monkeypatch.setattr(closing._opened, "here", list(wrappers))


def wrapper(*, shown: dict[str, str] | None = None) -> Mock:
    """Return one of Django's connections to PostgreSQL, as usable as ever, after an error."""
    its = Mock(closed=False, info=Mock(parameter_status=(shown or {}).get))
    return Mock(connection=its, errors_occurred=True, in_atomic_block=False, vendor="postgresql")


@BOTH
def test_one_that_cannot_be_closed_keeps_nobody_from_his_message(
    monkeypatch: pytest.MonkeyPatch, close: Close
) -> None:
    first, second = wrapper(), wrapper()
    first.is_usable.side_effect = first.close_if_unusable_or_obsolete.side_effect = SystemExit
    second.is_usable.return_value = False
    opened(monkeypatch, first, second)

    close()

    assert second.close.called or second.close_if_unusable_or_obsolete.called


@BOTH
def test_one_that_leads_to_a_standby_is_kept_after_an_error(
    monkeypatch: pytest.MonkeyPatch, close: Close
) -> None:
    # A replica, which somebody reads from, and where a query was cancelled.
    its = wrapper(shown={"in_hot_standby": "on"})
    opened(monkeypatch, its)

    close()

    assert not its.close.called
    assert not its.connection.close.called


class TestARefusal:
    @pytest.mark.parametrize(
        ("shown", "is_closed"),
        [
            ({"in_hot_standby": "on", "default_transaction_read_only": "off"}, True),
            ({"in_hot_standby": "off", "default_transaction_read_only": "on"}, True),
            ({"in_hot_standby": "off", "default_transaction_read_only": "off"}, False),
            ({}, False),  # as a pooler may have it
        ],
    )
    def test_closes_what_leads_to_a_read_only_server(
        self, monkeypatch: pytest.MonkeyPatch, shown: dict[str, str], is_closed: bool
    ) -> None:
        its = wrapper(shown=shown)
        opened(monkeypatch, its)

        closing.close_after(ReadOnlySqlTransaction())

        # Itself, too: a pool of Django's would keep it.
        assert (its.close.called, its.connection.close.called) == (is_closed, is_closed)

    @pytest.mark.parametrize(
        ("error", "is_refusal"),
        [
            (ReadOnlySqlTransaction(), True),
            (FeatureNotSupported("cannot use serializable mode in a hot standby"), True),
            (QueryCanceled("canceling statement due to conflict with recovery"), False),
            (ValueError(), False),
        ],
    )
    def test_is_known_behind_whatever_was_raised_over_it(
        self, error: Exception, is_refusal: bool
    ) -> None:
        over = Retry()
        over.__context__ = ValueError()
        over.__context__.__cause__ = error
        error.__context__ = over  # going round in a circle

        assert closing.is_refusal(over) == is_refusal

    def test_closes_nothing_amid_a_transaction(self, monkeypatch: pytest.MonkeyPatch) -> None:
        its = wrapper(shown={"in_hot_standby": "on"})
        its.in_atomic_block = True
        opened(monkeypatch, its)

        closing.close_after(ReadOnlySqlTransaction())

        assert not its.connection.close.called


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDatabaseWrapper]:
    """This thread's connection of Django's, kept whatever becomes of it."""
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    yield connection
    connection.close()


@pytest.mark.django_db(transaction=True)
class TestAThread:
    @pytest.mark.parametrize(
        ("task", "outcome"),
        [
            (jobs.leave_atomically, HandedBack),
            (jobs.leave_in_a_transaction, Retried),
            (jobs.defer_what_is_refused, Deferred),
        ],
    )
    def test_leaves_a_read_only_server_with_the_first_run_that_meets_it(
        self, kept: BaseDatabaseWrapper, task: Task[..., Any], outcome: type[Outcome]
    ) -> None:
        task.enqueue(*(["refused"] if outcome is not Deferred else []))
        with kept.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")

        ended = run_one()

        assert isinstance(ended, outcome)
        assert kept.connection is None

    def test_keeps_its_connection_where_a_run_failed_otherwise(
        self, kept: BaseDatabaseWrapper
    ) -> None:
        jobs.fail.enqueue("no use")
        with kept.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        before = kept.connection

        ended = run_one()

        assert isinstance(ended, Retried)
        assert kept.connection is before


def run_one() -> Outcome:
    """Run a message here, as one of a worker's threads would."""
    with connect("default", name="test") as session:
        (claimed,) = claim(session)
    quarantine = Quarantine("default", Holding(), max_lost=3)
    runner = Runner("default", Timeouts(), Handlers("default"), quarantine)
    return runner.run(Held(claimed, monotonic()))
