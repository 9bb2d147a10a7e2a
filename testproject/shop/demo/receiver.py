from __future__ import annotations

import json
import time
from collections import Counter
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from types import TracebackType
from typing import Any

from pgqueue.inbox import signatures
from pgqueue.options.webhook_options import new_secret

HOST = "127.0.0.1"
TOLERANCE = timedelta(minutes=5)


class Receiver:
    """A partner's server on loopback, which counts the orders that it is posted.

    It takes only what is signed with its secret.

    Attributes:
        received: posts by order id.
    """

    def __init__(self) -> None:
        self.secret = new_secret()
        self.received: Counter[int] = Counter()
        self._keys = signatures.as_secrets(self.secret)
        self._lock = Lock()
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it takes posts."""
        return f"http://{HOST}:{self._server.server_address[1]}/orders"

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Take one post, and return the status of the answer."""
        try:
            signatures.verify(self._keys, headers, [body], tolerance=TOLERANCE, now=time.time())
        except signatures.Unverified:
            return 401
        with self._lock:
            self.received[json.loads(body)["data"]["order_id"]] += 1
        return 200

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(receiver.take(dict(self.headers.items()), body))
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler
