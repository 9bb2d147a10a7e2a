"""Check-ins by URL, as healthchecks.io, Better Stack, Cronitor and others take them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from http.client import HTTPException
from queue import Full, Queue
from threading import Lock, Thread
from typing import Any, NamedTuple, get_args
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import Request, urlopen

from pgqueue import signals
from pgqueue.checkins.reporting import CheckIn, Status
from pgqueue.exceptions import InvalidSchedule
from pgqueue.values.escaping import logger_of
from pgqueue.values.version import VERSION

TIMEOUT = 10.0
"""Seconds that an endpoint has to answer."""
PAUSES = (1.0, 5.0)
"""Seconds before each further try."""
MOST = 1_000
"""The number of check-ins that wait for an endpoint; further ones are lost, and logged."""
AT_THE_END = 2.0
"""Seconds that a worker which has stopped waits for its last check-ins."""
SUFFIXES: Mapping[Status, str] = {"started": "/start", "succeeded": "", "failed": "/fail"}

logger = logger_of(__name__)


class _Ping(NamedTuple):
    name: str
    status: Status
    url: str


class URLs:
    """Requests a URL for each check-in (GET), by a thread of its own.

    A failed request is tried twice more, and then logged without the URL, which may be a secret.

    Args:
        urls: for the names of schedules, a URL or a dict of URLs by "started", "succeeded" and
            "failed"; a status without a URL is not reported. A single URL is for success, and
            "/start" and "/fail" are added to its path for the others, as healthchecks.io has it.

    Raises:
        InvalidSchedule: a URL or a status is invalid.
    """

    def __init__(self, urls: Mapping[str, str | Mapping[Status, str]]) -> None:
        if not isinstance(urls, Mapping):
            raise InvalidSchedule("URLs(…) takes a dict: the URL for each name of a schedule.")
        self._urls = {name: _by_status(name, given) for name, given in urls.items()}
        self._starting = Lock()
        self._pings: Queue[_Ping] = Queue(MOST)
        self._pid = 0

    def __call__(self, check_in: CheckIn) -> None:
        """Have the URL of a check-in requested, if there is one."""
        url = self._urls.get(check_in.name, {}).get(check_in.status)
        if url is None:
            return
        self._start()
        try:
            self._pings.put_nowait(_Ping(check_in.name, check_in.status, url))
        except Full:
            logger.error(
                "The check-in of the schedule %s is lost: %s others wait", check_in.name, MOST
            )

    def _start(self) -> None:
        """Start the thread, once in each process: a fork has none."""
        with self._starting:
            if self._pid == os.getpid():
                return
            self._pid, self._pings = os.getpid(), Queue(MOST)
            Thread(target=_request_each, args=[self._pings], name="check-ins", daemon=True).start()
            signals.worker_stopped.connect(self._wait, dispatch_uid=(__name__, id(self)))

    def _wait(self, **_: Any) -> None:
        until = time.monotonic() + AT_THE_END
        while self._pings.unfinished_tasks and time.monotonic() < until:
            time.sleep(0.01)


def _by_status(name: Any, given: Any) -> dict[Status, str]:
    if isinstance(given, str):
        parts = urlsplit(_checked(name, given))
        path = parts.path.rstrip("/")
        return {
            status: urlunsplit(parts._replace(path=path + suffix)) if suffix else given
            for status, suffix in SUFFIXES.items()
        }
    if not isinstance(given, Mapping):
        raise InvalidSchedule(f"{name!r}: it must be a URL, or a dict of URLs by status.")
    for status in given:
        if status not in get_args(Status):
            raise InvalidSchedule(
                f"{name!r}: there is no status {status!r}, only {', '.join(get_args(Status))}."
            )
    return {status: _checked(name, url) for status, url in given.items()}


def _checked(name: Any, url: Any) -> str:
    """Return the URL. An error does not show it: it may be a secret."""
    try:
        is_valid = isinstance(url, str) and _is_plain(url)
    except ValueError:  # of the port or the host
        is_valid = False
    if not is_valid:
        raise InvalidSchedule(
            f"{name!r}: its URL must be ASCII and begin with http:// or https://."
        )
    return str(url)


def _is_plain(url: str) -> bool:
    parts = urlsplit(url)
    is_text = url.isascii() and url.isprintable() and " " not in url
    has_port = parts.port is None or parts.port > 0
    return is_text and has_port and parts.scheme in ("http", "https") and bool(parts.hostname)


def _request_each(pings: Queue[_Ping]) -> None:
    while True:
        ping = pings.get()
        try:
            _request(ping)
        except Exception:
            logger.exception("A check-in of the schedule %s was not reported", ping.name)
        finally:
            pings.task_done()


def _request(ping: _Ping) -> None:
    reason = ""
    for pause in (0.0, *PAUSES):
        time.sleep(pause)
        request = Request(ping.url, headers={"User-Agent": f"pgqueue/{VERSION}"})  # noqa: S310
        try:
            with urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - `_checked` allows no other scheme
                response.read(1024)
                return
        except HTTPError as error:
            reason = f"status {error.code}"
            error.close()
        except (OSError, HTTPException) as error:
            reason = type(getattr(error, "reason", error)).__name__
    logger.error(
        "The check-in %s of the schedule %s was not taken: %s", ping.status, ping.name, reason
    )
