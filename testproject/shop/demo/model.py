"""A language model on loopback that only plays one: its answers are a script."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType
from typing import Any

HOST = "127.0.0.1"
HELD = 1
"""The number of the answer that can be held back: the second one."""
LONGEST_HOLD = 60
"""Seconds."""


class Model:
    """A server that answers complaints about orders, word by word.

    It keeps no state: its answer depends on the messages that it is sent.

    Attributes:
        asked: how often each question of a talk was asked, by its number.
    """

    def __init__(self, *, holds: bool = False, word_takes: float = 0) -> None:
        self.asked: Counter[int] = Counter()
        self._word_takes = word_takes
        self._go_on = Event()
        if not holds:
            self._go_on.set()
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it takes questions."""
        return f"http://{HOST}:{self._server.server_address[1]}/"

    def release(self) -> None:
        """Hold no answer back any more."""
        self._go_on.set()

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def lines(self, messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the words of an answer, and at last the answer itself."""
        number = sum(each["role"] == "assistant" for each in messages)
        self.asked[number] += 1
        text, answer = _script(number, messages)
        for word in text.split():
            yield {"word": word}
            time.sleep(self._word_takes)
        if number == HELD:
            self._go_on.wait(LONGEST_HOLD)
        yield {"answer": answer}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(200)
                self.end_headers()
                with suppress(ConnectionError):  # the one who asked was killed
                    for line in model.lines(json.loads(body)["messages"]):
                        self.wfile.write(json.dumps(line).encode() + b"\n")
                        self.wfile.flush()

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


def _script(number: int, messages: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """Return the words and the content of an answer."""
    order_id = int(re.findall(r"\d+", messages[0]["content"])[0])
    last = messages[-1]["content"]
    if number == 0:
        return "I look at the order.", {"tool": "find_order", "arguments": {"order_id": order_id}}
    if number == HELD:
        arguments = {"order_id": order_id, "amount": last["total"]}
        return f"The customer paid {last['total']}.", {"tool": "pay_back", "arguments": arguments}
    return "I write to the customer.", {"text": f"About order {order_id}: {str(last).rstrip('.')}."}
