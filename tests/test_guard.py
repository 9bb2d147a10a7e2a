"""The user's code ends no thread, and takes nothing with it that others have written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject

from pgqueue import (
    TransactionLeftOpen,
    TransactionLost,
    acting_as,
    consumer,
    publish,
    receive_webhook,
    task,
)
from pgqueue.events import consumers
from pgqueue.events.acting import acting
from pgqueue.events.consuming import GroupReader
from pgqueue.models import Message
from pgqueue.replication.feed import WalFeed
from pgqueue.streams.requests import answer_of
from pgqueue.threads.service import Service
from pgqueue.worker.buffer import Buffer
from pgqueue.worker.executor import Executor
from tests.eventually import eventually
from tests.inbox.test_signatures import SECRET
from tests.inbox.test_webhooks import ORDER, headers

pytestmark = pytest.mark.django_db(transaction=True)

LEAVING = (SystemExit, KeyboardInterrupt, GeneratorExit)


def open_one(*args: Any, **kwargs: Any) -> str:
    transaction.set_autocommit(False)
    Group.objects.create(name="never committed")
    return "key"


def open_group() -> Group:
    open_one()
    return Group.objects.get()


@task(key=open_one)
def keyed(number: int) -> None: ...


@task(dedupe_key=open_one)
def deduped(number: int) -> None: ...


@task
def taking(group: Group) -> None: ...


class TestAFunctionThatLeavesATransactionOpen:
    """The producer is told: what it writes afterwards would never be committed."""

    @pytest.mark.parametrize(
        "call",
        [
            lambda: keyed.enqueue(1),
            lambda: deduped.enqueue(1),
            lambda: taking.enqueue(SimpleLazyObject(open_group)),
        ],
        ids=["key", "dedupe_key", "argument"],
    )
    def test_as_it_makes_a_key_or_an_argument(self, call: Callable[[], Any]) -> None:
        with pytest.raises(TransactionLeftOpen, match="default"):
            call()

        Group.objects.create(name="of the producer")
        connection.close()
        assert [each.name for each in Group.objects.all()] == ["of the producer"]
        assert not Message.objects.exists()

    def test_as_it_tells_who_acts(self) -> None:
        with acting_as(open_one), pytest.raises(TransactionLeftOpen):
            acting()

    @pytest.mark.parametrize(
        "options",
        [
            {"secrets": lambda request: open_one() and SECRET},
            {"secrets": SECRET, "to": lambda body: open_one() and "an.order"},
            {"secrets": SECRET, "to": "an.order", "key": open_one},
            {"secrets": SECRET, "source": lambda request: open_one() and "shop"},
        ],
    )
    def test_as_a_webhook_is_received(self, options: dict[str, Any]) -> None:
        view = receive_webhook(**{"source": "shop", **options})
        sent = {f"HTTP_{k.upper().replace('-', '_')}": v for k, v in headers(ORDER).items()}
        request = RequestFactory().post("/", ORDER, content_type="application/json", **sent)

        with pytest.raises(TransactionLeftOpen):
            view(request)

        assert not Group.objects.exists()

    def test_as_it_authorizes_a_stream(self) -> None:
        with pytest.raises(TransactionLeftOpen):
            async_to_sync(answer_of)(open_one)

        assert not Group.objects.exists()

    def test_or_closes_the_callers_with_its_connection(self) -> None:
        def close(number: int) -> str:
            connection.close()
            return "key"

        transaction.set_autocommit(False)
        try:
            Group.objects.create(name="of the producer")
            with pytest.raises(TransactionLost):
                task(key=close)(_work).enqueue(1)
        finally:
            connection.close()

        assert not Group.objects.exists()
        assert not Message.objects.exists()

    def test_in_the_callers_own_transaction_is_no_matter(self) -> None:
        with transaction.atomic():
            task(key=lambda number: Group.objects.create(name=str(number)).name)(_work).enqueue(1)

        assert Group.objects.get().name == "1"
        assert Message.objects.get().key == "1"

    def test_in_the_callers_own_transaction_without_a_block_is_none_either(self) -> None:
        transaction.set_autocommit(False)
        try:
            task(key=lambda number: Group.objects.create(name=str(number)).name)(_work).enqueue(1)
            transaction.commit()
        finally:
            connection.close()

        assert Group.objects.get().name == "1"
        assert Message.objects.get().key == "1"


def _work(number: int) -> None: ...


class TestAThread:
    @pytest.mark.parametrize("error", LEAVING)
    def test_of_a_service_goes_on_whatever_its_tick_raises(
        self, error: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        class Leaves(Service):
            ticks = 0

            def tick(self) -> timedelta:
                self.ticks += 1
                if self.ticks == 1:
                    raise error("enough")
                return timedelta(minutes=1)

        service = Leaves()
        service.start()
        try:
            eventually(lambda: service.ticks > 1)
        finally:
            service.stop()

        assert "leaves failed and will try again: enough" in caplog.text

    def test_of_a_service_that_ends_all_the_same_says_so(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Ends(Service):
            def tick(self) -> timedelta:
                return timedelta(minutes=1)

            def rest(self, nap: timedelta) -> None:
                raise SystemExit("enough")

        service = Ends()
        service.start()
        service.join()

        assert service.is_stuck
        assert "The thread ends has ended" in caplog.text
        assert "SystemExit: enough" in caplog.text

    def test_of_a_worker_that_ends_says_so(self, caplog: pytest.LogCaptureFixture) -> None:
        def leave() -> None:
            raise SystemExit("enough")

        executor = Executor("threads", 1, Buffer(1, Mock()), Mock(), {"task-1": leave})
        executor.start()
        assert executor.stopped(timedelta(seconds=5))

        assert executor.is_stuck
        assert "The thread task-1 has ended" in caplog.text


class TestACommandWhoseThreadEnds:
    def test_that_reads_for_groups_fails_and_names_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(consumers, "_consumers", {})
        consumer("billing")(lambda event: None)
        consumer("mail")(lambda event: None)
        publish("order.paid")

        def leave(self: GroupReader, nap: timedelta) -> None:
            if "billing" in self.name:
                self._waiter.close()
                self._session.close()
                raise SystemExit
            Service.rest(self, nap)

        monkeypatch.setattr(GroupReader, "rest", leave)

        with pytest.raises(CommandError, match="group billing has ended"):
            call_command("pgqueue_group", "run", "billing", "mail")

    def test_that_follows_the_wal_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(WalFeed, "run", lambda self: self.finish())
        monkeypatch.setattr("pgqueue.management.commands.pgqueue_replication._ready", lambda *_: "")

        with pytest.raises(CommandError, match="has ended"):
            call_command("pgqueue_replication")


def test_async_hooks_that_would_end_the_server_fail_their_request() -> None:
    async def leave() -> None:
        raise SystemExit

    with pytest.raises(RuntimeError, match="SystemExit"):
        async_to_sync(answer_of)(leave)
