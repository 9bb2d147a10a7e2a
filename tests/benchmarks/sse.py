"""Events in the browser: how soon a page has them, and what a thousand pages cost.

p50_ms, p99_ms     one page, in headless Chromium, on `uvicorn` with one process; `messages` are
                   published one by one, 100 a second: from before `publish()` to the first line
                   of the page's handler, by the clock of this machine
max_ms             the slowest of them
rss_per_client_kb  what the memory of the server's process grew by as 1 000 clients connected, by
                   each; `harness/streams` has them in a process of its own
to_all_p50_ms, …   4 events a second to all of these: from before `publish()` to the client
lost               events that one of the thousand was not sent, or was sent twice
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any

from pgqueue import publish
from tests.benchmarks.harness import worker
from tests.benchmarks.harness.report import Report, Round, repeat
from tests.benchmarks.harness.streams import TOPIC
from tests.benchmarks.harness.worker import Worker

SIZES = (1000,)
PER_SECOND = 100
CLIENTS = 1000
TO_ALL, TO_ALL_PER_SECOND = 40, 4

FOLLOW = """
(topic) => {
  window.delays = [];
  window.isReady = false;
  const events = new EventSource("/events/");
  events.addEventListener(topic, (event) => {
    const now = performance.timeOrigin + performance.now();
    window.delays.push(now - JSON.parse(event.data).payload.at);
  });
  events.addEventListener("pgqueue.ready", () => { window.isReady = true; });
}
"""


def measure(*, messages: int, rounds: int) -> Report:
    """Follow the log in a page, and in a thousand clients."""
    return repeat("sse", _round, messages=messages, rounds=rounds)


def _round(count: int) -> Round:
    with _server() as (server, port):
        delays = _in_a_page(port, count)
    with _server() as (server, port):
        growth, many = _in_many(server, port, CLIENTS if count >= PER_SECOND else count)
    return Round(
        figures={
            "p50_ms": _percentile(delays, 50),
            "p99_ms": _percentile(delays, 99),
            "max_ms": max(delays),
            "rss_per_client_kb": growth,
            "to_all_p50_ms": many["p50_ms"],
            "to_all_p99_ms": many["p99_ms"],
            "lost": many["lost"],
        },
        ratios={},
    )


@contextmanager
def _server() -> Iterator[tuple[Worker, int]]:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port = own.getsockname()[1]
    program = [
        *(sys.executable, "-m", "uvicorn", "tests.benchmarks.harness.streams:application"),
        *("--port", str(port), "--lifespan", "off", "--log-level", "warning"),
        *("--timeout-graceful-shutdown", "1"),
    ]

    def accepts() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    with worker.started(program) as server:
        server.wait_until(accepts)
        yield server, port


def _in_a_page(port: int, count: int) -> list[float]:
    """Return milliseconds from publish to the page's handler."""
    from playwright.sync_api import sync_playwright

    # Playwright keeps an event loop in this thread.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
        )
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{port}/blank/")
        page.evaluate(FOLLOW, TOPIC)
        page.wait_for_function("window.isReady")
        _publish(count, PER_SECOND)
        page.wait_for_function(f"window.delays.length >= {count}")
        delays: list[float] = page.evaluate("window.delays")
        browser.close()
    return delays


def _in_many(server: Worker, port: int, clients: int) -> tuple[float, dict[str, Any]]:
    """Return what each of many clients costs, and what they saw."""
    before = _rss_kb(server)
    program = [
        *(sys.executable, "-m", "tests.benchmarks.harness.streams"),
        *(str(port), str(clients), str(TO_ALL)),
    ]
    with worker.started(program) as many:

        def said() -> list[str]:
            many.log.seek(0)
            return many.log.read().decode().splitlines()

        many.wait_until(lambda: "connected" in said(), every=0.1)
        growth = (_rss_kb(server) - before) / clients
        _publish(TO_ALL, TO_ALL_PER_SECOND)
        many.wait_until(lambda: said()[-1].startswith("{"), every=0.1)
        return growth, json.loads(said()[-1])


def _publish(count: int, per_second: int) -> None:
    """Publish at a steady rate, however long each takes."""
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / per_second - time.monotonic()))
        publish(TOPIC, {"at": time.time() * 1000, "number": number})


def _rss_kb(server: Worker) -> float:
    """Return what a process has in memory now, in kB of a thousand bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["VmRSS"].split()[0]) * 1024 / 1e3


def _percentile(delays: list[float], percent: int) -> float:
    return quantiles(delays, n=100, method="inclusive")[percent - 1]
