"""Post to an endpoint: to an address that was checked, and within a time for all of it.

urllib3 speaks HTTP and TLS, and keeps connections. It is given sockets of our own: they are
connected to an address that was checked after the look-up, whatever the name means by then, and
each of their calls has only what is left of the exchange's time. A kept connection is to such an
address, too. Redirects are not followed, and no proxy of the environment is asked.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
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
from pgqueue.options.webhook_options import Origin

EXCERPT = 1024
"""Bytes of a response that are kept."""
DRAINED = 64 * 1024
"""Bytes of a response that are read, so that its connection can be kept."""
KEPT_FOR = 60.0
"""Seconds that a connection is used, before the name is looked up again."""
HOSTS, CONNECTIONS = 100, 100
"""To which connections are kept, and to each of them."""


class Response(NamedTuple):
    """What an endpoint answered."""

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
    """Post, and return what was answered, whatever its status.

    Args:
        timeout: seconds for all of it.
        networks: those that may be posted to besides public ones.

    Raises:
        DeliveryFailed: nothing was answered, or nothing was asked. Its text says why, and nothing
            of the URL, which may be what lets one in.
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
    """Return the first bytes of a response; the connection is kept if there are not many more."""
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
        # The status is there, and it is what counts.
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


# --- Sockets that know until when they may work


class _Exchange(local):
    """What is being done in this thread."""

    until: float = inf
    networks: tuple[Network, ...] = ()
    is_on: bool = False


_exchange = _Exchange()


class _Quiet(logging.Filter):
    """Drops what the library logs of an exchange: its lines have the URL, which may let one in."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the records of others, who use the library in other threads or at other times."""
        return not _exchange.is_on


_QUIET = _Quiet()
for _name in ("connection", "connectionpool", "poolmanager", "response", "util.retry"):
    logging.getLogger(f"urllib3.{_name}").addFilter(_QUIET)


class _AddressRefused(Exception):
    """The address may not be posted to."""


class _Until:
    """A socket whose calls end with the exchange."""

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
    """Without TLS."""


class _TLSSocket(_Until, ssl.SSLSocket):
    """With TLS."""


def _connected(host: str, port: int) -> _Socket:
    """Return a socket that is connected to the host, at an address that was checked.

    Raises:
        _Refused: one of its addresses may not be posted to.
        OSError: it can't be looked up or reached.
    """
    until, networks = _exchange.until, _exchange.networks
    found = _look_up(host, port, until)
    for *_, address in found:
        # Each of them: who answers for the name chooses which one comes first.
        if not is_allowed(str(address[0]), networks):
            raise _AddressRefused(
                f"Its address {address[0]} is private: PGQUEUE['WEBHOOKS']['ALLOW_PRIVATE'] would "
                "have to allow it."
            )
    last: OSError | None = None
    for number, (family, kind, protocol, _, address) in enumerate(found):
        made = _Socket(family, kind, protocol)
        made.until = until
        try:
            left = until - monotonic()
            if left <= 0:
                raise TimeoutError
            # Something is left for the others.
            made.settimeout(left / (len(found) - number))
            made.connect(address)
        except OSError as error:
            made.close()
            last = error
            continue
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.settimeout(max(until - monotonic(), 0.001))  # TLS greets within that
        return made
    raise last or OSError("it has no address")


def _look_up(host: str, port: int, until: float) -> list[Any]:
    """Return the addresses of a host; in a thread, since a look-up has no timeout.

    Raises:
        OSError: it has none, or they did not come in time.
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


# --- urllib3 with such sockets


class _Checked:
    """A connection to an address that was checked."""

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
    """Without TLS."""


class _TLSConnection(_Checked, HTTPSConnection):
    """With TLS."""


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
