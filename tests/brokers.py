"""Brokers that relays hand events to: a real Redis, and a cluster that speaks Kafka's protocol."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import redis
from confluent_kafka import Consumer, Producer

from pgqueue import embedded
from tests import programs
from tests.eventually import eventually
from tests.system import free_port


class Redis:
    """A server that keeps what it has acknowledged, whatever becomes of it.

    Args:
        folder: for its data.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self._folder = folder
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and return when it answers."""
        program = programs.find("redis-server", package="redis-server")
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self._folder)]
        self._popen = subprocess.Popen(
            [program, *place, "--save", "", "--appendonly", "yes", "--appendfsync", "always"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=partial(embedded._die_with, os.getpid()),
        )
        eventually(self._answers, what="redis-server starts")

    def _answers(self) -> bool:
        assert self._popen is not None and self._popen.poll() is None, "redis-server ended"
        with suppress(redis.ConnectionError), self.connect() as client:
            return bool(client.ping())
        return False

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, if it runs."""
        if self._popen is not None:
            self._popen.send_signal(how)
            self._popen.wait(10)
            self._popen = None

    def connect(self) -> Any:
        """Return a client of it."""
        return redis.Redis(port=self.port, socket_timeout=5, decode_responses=True)

    def entries(self, stream: str) -> list[tuple[str, dict[str, str]]]:
        """Return what a stream has: ids and fields."""
        with self.connect() as client:
            return list(client.xrange(stream))

    def streams(self) -> list[str]:
        """Return the names of its streams."""
        with self.connect() as client:
            return sorted(client.scan_iter(_type="stream"))


class Kafka:
    """Brokers of librdkafka's own mock cluster, which speak Kafka's protocol over sockets.

    They are no Kafka: there is none in PyPI or Debian. They keep messages in memory, and know
    idempotent producers, partitions and consumers.
    """

    def __init__(self) -> None:
        # They live in this client.
        self._client = Producer({"test.mock.num.brokers": 3})
        found = self._client.list_topics(timeout=10).brokers.values()
        self.bootstrap = ",".join(f"{each.host}:{each.port}" for each in found)

    def read(self, topic: str, count: int) -> list[Any]:
        """Return the first messages of a topic, from all its partitions."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "test",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe([topic])
        found: list[Any] = []

        def has_come() -> bool:
            found.extend(each for each in consumer.consume(count, timeout=0.5) if not each.error())
            return len(found) >= count

        try:
            eventually(has_come, within=30, what=f"{count} messages of {topic}")
            return found
        finally:
            consumer.close()
