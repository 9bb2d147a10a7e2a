"""An endpoint for webhooks on loopback, in a process of its own, which costs little.

Run as a program it prints its port, and serves until its input ends. A GET returns how many posts
it took, with and without repetitions.
"""

import asyncio
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from tests.benchmarks.harness.database import ROOT

ID = re.compile(rb"\r\nwebhook-id: ?([^\r]+)\r\n", re.IGNORECASE)
LENGTH = re.compile(rb"\r\ncontent-length: ?(\d+)\r\n", re.IGNORECASE)
END = b"\r\n\r\n"


@dataclass(frozen=True)
class Endpoint:
    """One that serves."""

    url: str

    def taken(self) -> tuple[int, int]:
        """Return how many posts it took, and of how many different ids."""
        with urlopen(self.url) as response:  # noqa: S310
            posts, ids = map(int, response.read().split())
        return posts, ids


@contextmanager
def serving() -> Iterator[Endpoint]:
    """Have an endpoint while this lasts."""
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            port = int(process.stdout.readline()) if process.stdout else 0
            yield Endpoint(f"http://127.0.0.1:{port}/hooks")
        finally:
            process.kill()


class _Protocol(asyncio.Protocol):
    taken: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while (end := self.received.find(END)) >= 0:
            head = self.received[: end + len(END)]
            length = LENGTH.search(head)
            whole = len(head) + (int(length[1]) if length else 0)
            if len(self.received) < whole:
                return
            self.received = self.received[whole:]
            self.answer(head)

    def answer(self, head: bytes) -> None:
        said = b"ok"
        if head.startswith(b"GET"):
            said = b"%d %d" % (len(self.taken), len(set(self.taken)))
        elif found := ID.search(head):
            self.taken.append(found[1])
        self.transport.write(  # type: ignore[attr-defined]
            b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said)
        )


async def _main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Protocol, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_main())
