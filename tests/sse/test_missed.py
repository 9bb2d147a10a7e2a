"""The missed events of clients that come back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from psycopg.errors import QueryCanceled

from pgqueue.sse.missed import CatchingUp
from pgqueue.streams.client import WENT_WRONG


class Client(SimpleNamespace):
    """A client whose loop calls at once."""

    def __init__(self, wanted: str) -> None:
        self.told: list[Any] = []
        super().__init__(
            wanted=wanted,
            last_event_id="7",
            limits=None,
            loop=SimpleNamespace(call_soon_threadsafe=lambda call: call()),
            begin=self.told.append,
            end=self.told.append,
        )


@pytest.mark.parametrize("error", [TypeError, RecursionError, QueryCanceled])
def test_an_error_of_one_client_keeps_no_other_waiting(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missed(client: Any, upto: int) -> bytes:
        if client.wanted == "odd":
            raise error("it can't be read")
        return b"missed"

    service = CatchingUp("default")
    monkeypatch.setattr(service, "_missed", missed)
    odd, even = Client("odd"), Client("even")
    for each in (odd, even):
        service.add(each, 9)  # type: ignore[arg-type]

    service.tick()

    assert (odd.told, even.told) == ([WENT_WRONG], [b"missed"])
