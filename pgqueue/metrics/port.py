"""The HTTP port of a worker: its figures for Prometheus, and its health."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app

from pgqueue.conf import settings
from pgqueue.database import forking
from pgqueue.metrics.worker import registry_of
from pgqueue.values.escaping import logger_of
from pgqueue.worker.report import WorkerSnapshot

logger = logger_of("pgqueue")

METRICS, HEALTH, ALIVE = "/metrics", "/healthz", "/livez"
PATIENCE = 5.0
"""Seconds after which a client that neither sends nor reads is dropped."""
LOOK = 0.2
"""Seconds between two checks for the request to stop."""
MOST_CLIENTS = 16
"""The maximum of clients, as each has its own thread. Further connections are closed."""

StartResponse = Callable[[str, list[tuple[str, str]]], object]


class Port:
    """A bound port. It answers requests during `serving()`.

    Raises:
        OSError: binding failed, for example because another process has the port.
    """

    def __init__(self, address: str, port: int) -> None:
        self._server = _Server((address, port), _Handler)
        # A child process that outlives this process would keep the port.
        forking.cut_in_children(self._server.socket)

    @contextmanager
    def serving(self, snapshot: Callable[[], WorkerSnapshot]) -> Iterator[None]:
        """Answer requests in other threads until the end of the block; then close the port.

        Args:
            snapshot: returns the state of the worker. Any thread may call it.
        """
        self._server.set_app(_app(snapshot))
        serve = partial(self._server.serve_forever, LOOK)
        threading.Thread(target=serve, name="metrics", daemon=True).start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()


def _app(snapshot: Callable[[], WorkerSnapshot]) -> Callable[..., Iterable[bytes]]:
    metrics = make_wsgi_app(registry_of(snapshot))

    def app(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == METRICS:
            answered: Iterable[bytes] = metrics(environ, start_response)
            return answered
        if path == HEALTH:
            return _health(snapshot().not_working(settings().lease), start_response)
        if path == ALIVE:
            return _health(snapshot().not_alive(), start_response)
        return _not_found(environ, start_response)

    return app


def _health(reasons: Sequence[str], start_response: StartResponse) -> Iterable[bytes]:
    status = HTTPStatus.SERVICE_UNAVAILABLE if reasons else HTTPStatus.OK
    return _answer(status, "; ".join(reasons) or "ok", start_response)


def _not_found(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
    text = f"There are {METRICS}, {HEALTH} and {ALIVE}."
    return _answer(HTTPStatus.NOT_FOUND, text, start_response)


def _answer(status: HTTPStatus, text: str, start_response: StartResponse) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store")]
    start_response(f"{status.value} {status.phrase}", headers)
    return [f"{text}\n".encode()]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    allow_reuse_port = False  # two workers must not share a port

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        self._room = threading.BoundedSemaphore(MOST_CLIENTS)
        found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        self.address_family = found[0][0]
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's method would ask the DNS for this host's name.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            # No thread could be started, so none gives the room back.
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Nearly always, the client has closed its connection.
        logger.debug("A request of %s could not be answered", client_address, exc_info=True)


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)
