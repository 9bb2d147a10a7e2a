"""A server of streams, and many clients that read them in a process of their own.

Run as `python -m tests.benchmarks.harness.streams PORT CLIENTS EVENTS`, it says "connected", and
then what its clients saw.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from statistics import quantiles

from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest, HttpResponse
from django.urls import path

TOPIC = "bench.happened"
AT_ONCE = 50
PATIENCE = 60.0  # seconds


def _application() -> ASGIHandler:
    """Return a project that has one stream, and the middleware that is usual."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.benchmarks.harness.settings")
    from django.conf import settings
    from django.core.asgi import get_asgi_application

    settings.ROOT_URLCONF = __name__
    settings.DEBUG = False
    settings.ALLOWED_HOSTS = ["*"]
    return get_asgi_application()


def blank(request: HttpRequest) -> HttpResponse:
    """Return a page to run a script in."""
    return HttpResponse("")


def __getattr__(name: str) -> object:
    # Only the server needs Django.
    if name == "application":
        return _application()
    if name == "urlpatterns":
        from pgqueue.sse import event_stream

        return [
            path("blank/", blank),
            path("events/", event_stream(authorize=lambda request, wanted: True)),
        ]
    raise AttributeError(name)


async def follow(port: int, clients: int, events: int) -> None:
    """Have so many clients read so many events each; say what they saw."""
    import aiohttp

    ready, delays = asyncio.Semaphore(0), list[float]()
    connecting = asyncio.Semaphore(AT_ONCE)

    async def read(session: aiohttp.ClientSession) -> int:
        """Return how many events were lost, or came twice."""
        seen: list[int] = []
        async with connecting:
            response = await session.get(f"http://127.0.0.1:{port}/events/")
            assert response.status == 200, response.status
            async for line in response.content:
                if line == b"event: pgqueue.ready\n":
                    ready.release()
                    break
        async with asyncio.timeout(PATIENCE + 30):
            async for line in response.content:
                if line.startswith(b"data: ") and b'"payload"' in line:
                    payload = json.loads(line[len(b"data: ") :])["payload"]
                    delays.append(time.time() * 1000 - payload["at"])
                    seen.append(payload["number"])
                    if payload["number"] == events - 1:
                        break
        response.close()
        return len(set(range(events)) ^ set(seen)) + len(seen) - len(set(seen))

    connector = aiohttp.TCPConnector(limit=0)
    no_limit = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=connector, timeout=no_limit) as session:
        reading = [asyncio.create_task(read(session)) for _ in range(clients)]
        for _ in range(clients):
            await asyncio.wait_for(ready.acquire(), PATIENCE)
        print("connected", flush=True)
        lost = sum(await asyncio.gather(*reading))
    cuts = quantiles(delays, n=100, method="inclusive")
    print(json.dumps({"lost": lost, "p50_ms": cuts[49], "p99_ms": cuts[98]}), flush=True)


if __name__ == "__main__":
    asyncio.run(follow(*map(int, sys.argv[1:])))
