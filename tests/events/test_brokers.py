"""The relays of the guide hand events to brokers that are there, and no event twice."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import Producer

from pgqueue import publish_many
from pgqueue.events import subscribing
from pgqueue.models import History, Message
from pgqueue.states import State
from pgqueue.testing import run_all
from tests.brokers import Kafka, Redis
from tests.events.conftest import dispatching
from tests.factories import Connection

pytestmark = pytest.mark.slow

GUIDE = Path(__file__).parents[2] / "docs/guide/relay.md"
KEYS = ("a", "b", "c")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Redis]:
    """A Redis that runs."""
    server = Redis(tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def code(own_tasks: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What runs the Python of a section of the guide, as a module that is alone in the project."""
    subscribing.declared("default")
    monkeypatch.setattr(subscribing, "_subscriptions", {})
    modules: list[ModuleType] = []

    def run(section: str, **environment: str) -> ModuleType:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        _, _, text = GUIDE.read_text().partition(f"\n## {section}\n")
        [program] = re.findall(r"^```python\n(.*?)^```", text.partition("\n## ")[0], re.M | re.S)
        module = ModuleType("example")
        monkeypatch.setitem(sys.modules, "example", module)
        exec(compile(program, GUIDE.name, "exec"), module.__dict__)  # noqa: S102
        modules.append(module)
        return module

    yield run
    # Or its clients would look for their brokers until the process ends.
    for each in [each for module in modules for each in vars(module).values()]:
        if hasattr(each, "cache_clear"):
            each.cache_clear()


def publish_orders(count: int = 12) -> None:
    """Publish orders of several keys."""
    publish_many([("order.paid", {"n": n}, KEYS[n % 3]) for n in range(count)])


def run_again() -> None:
    """Have everything that was run once more, as after workers that died before they settled."""
    for ended in History.objects.order_by("id"):
        Message.objects.create(
            channel=ended.channel,
            key=ended.key,
            task=ended.task,
            payload=ended.payload,
            metadata=ended.metadata,
            priority=ended.priority,
            max_attempts=ended.max_attempts,
            state=State.READY,
        )
    run_all(raise_errors=True)


class TestRedis:
    def test_has_each_event_once_in_the_order_of_its_key(
        self, code: Any, broker: Redis, connection: Connection
    ) -> None:
        code("Redis streams", REDIS_URL=broker.url)
        with dispatching(connection) as dispatch:
            publish_orders()
            dispatch()
        run_all(raise_errors=True)
        run_again()

        assert broker.streams() == ["orders", "orders:a", "orders:b", "orders:c"]
        for offset, key in enumerate(KEYS):
            found = [fields["payload"] for _, fields in broker.entries(f"orders:{key}")]
            assert found == [f'{{"n": {n}}}' for n in range(offset, 12, 3)]
        ids = [id for id, _ in broker.entries("orders")]
        assert ids == [f"{position}-0" for position in range(1, 13)]

    def test_that_has_a_part_of_a_batch_is_given_the_rest(
        self, code: Any, broker: Redis, connection: Connection
    ) -> None:
        code("Redis streams", REDIS_URL=broker.url)
        with dispatching(connection) as dispatch:
            publish_orders()
            dispatch()
        with broker.connect() as client:
            client.xadd("orders", {"topic": "order.paid"}, id="5-0")

        run_all(raise_errors=True)

        ids = [id for id, _ in broker.entries("orders")]
        assert ids == [f"{position}-0" for position in range(5, 13)]

    def test_whose_entries_were_removed_is_not_given_them_again(
        self, code: Any, broker: Redis, connection: Connection
    ) -> None:
        code("Redis streams", REDIS_URL=broker.url)
        with dispatching(connection) as dispatch:
            publish_orders()
            dispatch()
        run_all(raise_errors=True)
        with broker.connect() as client:
            client.xtrim("orders", maxlen=0)
        Message.objects.all().delete()
        History.objects.exclude(channel="all to redis").delete()

        run_again()

        assert broker.entries("orders") == []

    def test_that_is_away_loses_nothing(
        self, code: Any, broker: Redis, connection: Connection
    ) -> None:
        code("Redis streams", REDIS_URL=broker.url)
        with dispatching(connection) as dispatch:
            publish_orders()
            dispatch()
        broker.stop()
        # Of each key the first, and the batch.
        assert [each.status for each in run_all()] == [State.SCHEDULED] * 4
        broker.start()

        Message.objects.filter(state=State.SCHEDULED).run_now()
        run_all(raise_errors=True)

        assert [len(broker.entries(f"orders:{key}")) for key in KEYS] == [4, 4, 4]
        assert len(broker.entries("orders")) == 12


class TestKafka:
    def test_has_each_event_with_its_key_and_position(
        self, code: Any, connection: Connection
    ) -> None:
        cluster = Kafka()
        code("Kafka", KAFKA_BROKERS=cluster.bootstrap)
        with dispatching(connection) as dispatch:
            publish_orders()
            dispatch()

        run_all(raise_errors=True)

        found = cluster.read("order.paid", 12)
        for key in KEYS:
            own = [each for each in found if each.key() == key.encode()]
            positions = [int(dict(each.headers())["position"]) for each in own]
            assert positions == list(range(KEYS.index(key) + 1, 13, 3))
            assert own[0].value() == f'{{"n": {KEYS.index(key)}}}'.encode()

    def test_that_is_away_is_a_failure_that_is_tried_again(
        self, code: Any, connection: Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        nobody = Producer({"bootstrap.servers": "127.0.0.1:1", "message.timeout.ms": 300})
        module = code("Kafka", KAFKA_BROKERS="127.0.0.1:1")
        monkeypatch.setattr(module, "producer", lambda: nobody)
        with dispatching(connection) as dispatch:
            publish_orders(1)
            dispatch()

        (ran,) = run_all()

        assert ran.status is State.SCHEDULED
        assert ran.failures == 1
