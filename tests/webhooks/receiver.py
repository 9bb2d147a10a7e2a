"""Endpoints on loopback: one that answers as it is told, and one that speaks no proper HTTP."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass(frozen=True)
class Post:
    """What was posted."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    client: tuple[str, int]


@dataclass
class Receiver:
    """An endpoint.

    Attributes:
        answers: what the next posts are answered; then 200.
    """

    url: str
    posts: list[Post] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)

    def answer(self, status: int, body: bytes = b"", times: int = 1, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers += [(status, named, body)] * times

    @property
    def ids(self) -> list[str]:
        return [post.headers["webhook-id"] for post in self.posts]


@contextmanager
def receiving(*, tls: ssl.SSLContext | None = None, port: int = 0) -> Iterator[Receiver]:
    """An endpoint that keeps connections."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            receiver.posts.append(Post(self.path, headers, body, self.client_address))
            status, own, text = receiver.answers.pop(0) if receiver.answers else (200, {}, b"ok")
            self.send_response(status)
            for name, value in {"content-length": str(len(text)), **own}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *arguments: Any) -> None:
            pass

    accepted: list[socket.socket] = []

    class Server(ThreadingHTTPServer):
        def process_request(self, request: Any, client_address: Any) -> None:
            accepted.append(request)
            super().process_request(request, client_address)

        def handle_error(self, *arguments: Any) -> None:
            pass  # a client that has gone

    server = Server(("127.0.0.1", port), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    receiver = Receiver(f"{scheme}://127.0.0.1:{server.server_address[1]}/hooks")
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        # Clients keep connections, and each of these has a thread here.
        for each in accepted:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


@contextmanager
def speaking(say: Callable[[socket.socket, Event], None]) -> Iterator[tuple[str, list[int]]]:
    """An endpoint that does with each connection what it is told; yields its URL.

    Args:
        say: called with the connection, and what is set at the end.
    """
    over, accepted = Event(), list[int]()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                say(connection, over)

        def accept() -> None:
            with suppress(OSError):
                while not over.is_set():
                    connection, _ = server.accept()
                    accepted.append(1)
                    Thread(target=serve, args=(connection,), daemon=True).start()

        thread = Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}/", accepted
        finally:
            over.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
    thread.join(5)
