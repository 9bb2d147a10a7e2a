"""An endpoint of a webhook, which says of each post what it answers before it does.

Run as `python -m tests.chaos.endpoint PORT STATUS`. Its lines are a status, a webhook-id and the
position of an event.
"""

from __future__ import annotations

import gzip
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        line = f"{self.status} {self.headers['webhook-id']} {json.loads(body)['position']}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        self.send_response(self.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


if __name__ == "__main__":
    Handler.status = int(sys.argv[2])
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
