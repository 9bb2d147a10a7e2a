"""Post to an endpoint at a checked address, with a time limit for the whole exchange.

urllib3 handles HTTP and TLS, and keeps connections. It uses sockets of pgqueue, which connect to an
address that was checked after the look-up, even if the name changes meanwhile. Each call of a
socket has only the rest of the exchange's time. A kept connection leads to a checked address, too.
Redirects are not followed, and proxies of the environment are ignored.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from math import inf
from queue import Queue
from threading import Lock, Thread, local
from time import monotonic
from typing import Any, NamedTuple

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, ProtocolError, SSLError
from urllib3.exceptions import TimeoutError as PoolTimeout

from pgqueue.exceptions import DeliveryFailed
from pgqueue.options.addresses import Network, is_allowed
from pgqueue.options.webhook_urls import Origin

EXCERPT = 1024
"""The number of bytes of a response that are stored."""
DRAINED = 64 * 1024
"""The maximum number of bytes that are read from a response, to keep its connection."""
KEPT_FOR = 60.0
"""Seconds for which a connection is used before the name is looked up again."""
INTERIM = 20
"""The maximum number of interim responses, such as 102 and 103, before the answer."""
HOSTS, CONNECTIONS = 100, 100
"""The number of hosts with kept connections, and of kept connections to each host."""


class Response(NamedTuple):
    """The answer of an endpoint."""

    status: int
    excerpt: str
    retry_after: str | None
    seconds: float


def post(
    origin: Origin,
    path: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout: float,
    networks: tuple[Network, ...] = (),
) -> Response:
    """Post, and return the answer with any status.

    Args:
        timeout: seconds for the whole exchange.
        networks: networks that are allowed in addition to public ones.

    Raises:
        DeliveryFailed: there was no answer, or nothing was sent. Its text gives the reason without
            the URL, which may contain a credential.
    """
    began = monotonic()
    _exchange.until, _exchange.networks = began + timeout, networks
    _exchange.is_on = True
    try:
        response = _pool(origin).urlopen(
            "POST",
            path,
            body=body,
            headers=headers,
            retries=False,
            redirect=False,
            assert_same_host=False,
            timeout=timeout,
            preload_content=False,
            decode_content=False,
        )
        excerpt = _excerpt(response)
    # From None, each: the causes quote the URL, the headers or the secret.
    except _AddressRefused as error:
        raise DeliveryFailed(str(error)) from None
    except (TimeoutError, PoolTimeout):
        raise DeliveryFailed(f"It did not answer within {timeout:g} s.") from None
    except (OSError, HTTPError) as error:
        raise DeliveryFailed(_reason(error, timeout)) from None
    finally:
        _exchange.is_on = False
    return Response(
        response.status,
        excerpt.decode("utf-8", "replace").replace("\x00", ""),
        response.headers.get("retry-after"),
        monotonic() - began,
    )


def _excerpt(response: Any) -> bytes:
    """Return the first bytes of a response. After a short response, the connection is kept."""
    found = b""
    try:
        while len(found) < DRAINED:
            more = response.read(EXCERPT)
            if not more:
                break
            found += more
        else:
            response.close()
    except (OSError, HTTPError):
        # The status has arrived, which decides the outcome.
        response.close()
    return found[:EXCERPT]


def _reason(error: Exception, timeout: float) -> str:
    cause = error.args[1] if isinstance(error, ProtocolError) and error.args[1:] else error
    if isinstance(cause, TimeoutError):
        return f"It did not answer within {timeout:g} s."
    if isinstance(cause, SSLError | ssl.SSLError):
        return f"TLS: {cause}"
    if isinstance(cause, OSError) and cause.errno:
        return f"It can't be reached: {os.strerror(cause.errno)}."
    return f"The connection failed: {cause}"


# --- Sockets with a deadline


class _Exchange(local):
    """The current exchange of this thread."""

    until: float = inf
    networks: tuple[Network, ...] = ()
    is_on: bool = False


_exchange = _Exchange()


class _Quiet(logging.Filter):
    """Drops the library's log lines of an exchange: the URL in them may contain a credential."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the log lines of other users of the library."""
        return not _exchange.is_on


_QUIET = _Quiet()
for _name in ("connection", "connectionpool", "poolmanager", "response", "util.retry"):
    logging.getLogger(f"urllib3.{_name}").addFilter(_QUIET)


class _AddressRefused(Exception):
    """Posts to the address are not allowed."""


class _Until:
    """A socket whose calls end at the exchange's deadline."""

    until: float = inf

    def _limit(self: Any) -> None:
        left = self.until - monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)

    def recv(self, *args: Any, **kwargs: Any) -> Any:
        self._limit()
        return super().recv(*args, **kwargs)  # type: ignore[misc]

    def recv_into(self, *args: Any, **kwargs: Any) -> Any:
        self._limit()
        return super().recv_into(*args, **kwargs)  # type: ignore[misc]

    def send(self, *args: Any, **kwargs: Any) -> Any:
        self._limit()
        return super().send(*args, **kwargs)  # type: ignore[misc]

    def sendall(self, *args: Any, **kwargs: Any) -> Any:
        self._limit()
        return super().sendall(*args, **kwargs)  # type: ignore[misc]


class _Socket(_Until, socket.socket):
    """A socket without TLS."""


class _TLSSocket(_Until, ssl.SSLSocket):
    """A socket with TLS."""


def _connected(host: str, port: int) -> _Socket:
    """Return a socket that is connected to the host at a checked address.

    Raises:
        _Refused: one of the host's addresses is not allowed.
        OSError: the look-up failed, or the host is unreachable.
    """
    until, networks = _exchange.until, _exchange.networks
    found = _look_up(host, port, until)
    for *_, address in found:
        # Check each address: the name server chooses which one comes first.
        if not is_allowed(str(address[0]), networks):
            raise _AddressRefused(
                f"Its address {address[0]} is private: PGQUEUE['WEBHOOKS']['ALLOW_PRIVATE'] must "
                "allow it."
            )
    last: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(found):
        made = _Socket(family, kind, protocol)
        made.until = until
        try:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            # Leave some of the time for the other addresses.
            made.settimeout(left / (len(found) - number))
            made.connect(address)
        except OSError as error:
            made.close()
            last = error
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(max(until - monotonic(), 0.001))  # the limit of the TLS handshake
        return made
    raise last or OSError("it has no address")


def _look_up(host: str, port: int, until: float) -> list[Any]:
    """Return the addresses of a host, looked up in a thread, since a look-up has no timeout.

    Raises:
        OSError: the host has no address, or the look-up did not end in time.
    """
    with suppress(socket.gaierror):
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=numeric)
    answers: Queue[Any] = Queue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            answers.put(error)

    Thread(target=ask, name="pgqueue-webhooks-names", daemon=True).start()
    try:
        answer = answers.get(timeout=max(until - monotonic(), 0))
    except Exception as error:
        raise TimeoutError from error
    if isinstance(answer, socket.gaierror):
        raise OSError("its name can't be looked up") from answer
    if isinstance(answer, OSError):
        raise answer
    return list(answer)


# --- urllib3 with these sockets


class _Answer(HTTPResponse):
    """The final response to a request.

    http.client takes each status but 100 for final. On a kept connection, the answer behind an
    interim response would be the answer of the next post.
    """

    def begin(self) -> None:
        for _ in range(INTERIM + 1):
            super().begin()
            if not 100 <= self.status < 200:
                return
            if self.status == HTTPStatus.SWITCHING_PROTOCOLS:
                self.will_close = True  # no HTTP follows it
                return
            self.headers = self.msg = None  # type: ignore[assignment]
        raise HTTPException(f"more than {INTERIM} interim responses")


class _Checked:
    """A connection to a checked address."""

    response_class: Any = _Answer
    _since: float = inf

    def _new_conn(self: Any) -> Any:
        self._since = monotonic()
        return _connected(self.host, self.port)

    def request(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.sock is not None:
            self.sock.until = _exchange.until
        return super().request(*args, **kwargs)  # type: ignore[misc]

    @property
    def is_connected(self: Any) -> bool:
        return bool(self._may_be_kept and super().is_connected)  # type: ignore[misc]

    @property
    def _may_be_kept(self: Any) -> bool:
        if self.sock is None or monotonic() - self._since > KEPT_FOR:
            return False
        try:
            return is_allowed(str(self.sock.getpeername()[0]), _exchange.networks)
        except OSError:
            return False


class _PlainConnection(_Checked, HTTPConnection):
    """A connection without TLS."""


class _TLSConnection(_Checked, HTTPSConnection):
    """A connection with TLS."""


class _PlainPool(HTTPConnectionPool):
    ConnectionCls: Any = _PlainConnection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls: Any = _TLSConnection


_making = Lock()


def _pool(origin: Origin) -> HTTPConnectionPool:
    with _making:
        manager = _manager()
    return manager.connection_from_host(origin.host, origin.port, origin.scheme)


@cache
def _manager() -> PoolManager:
    context = ssl.create_default_context()
    context.sslsocket_class = _TLSSocket
    manager = PoolManager(HOSTS, maxsize=CONNECTIONS, block=False, ssl_context=context)
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TLSPool}
    return manager
