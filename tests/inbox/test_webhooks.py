"""Webhooks of others are verified, and stored once, however often they are sent."""

from __future__ import annotations

import gzip
import hmac
import inspect
import json
import threading
import tracemalloc
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from http.client import HTTPConnection
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest
import uvicorn
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.test import Client, RequestFactory, override_settings

from pgqueue import (
    InvalidEvent,
    InvalidMessage,
    InvalidSecret,
    publish_many,
    read,
    receive_webhook,
    webhooks,
)
from pgqueue.models import Dedupe, EventInbox, Message
from pgqueue.testing import run_all
from pgqueue.webhooks import targets
from tests.eventually import eventually
from tests.factories import limit
from tests.inbox import urls
from tests.inbox.handlers import book, booked
from tests.inbox.test_signatures import OTHER, SECRET, signed

pytestmark = pytest.mark.urls("tests.inbox.urls")

ORDER = json.dumps({"type": "order", "order": 7}).encode()


def headers(
    body: bytes, *, id: str = "m-1", secret: str = SECRET, at: datetime | None = None
) -> dict[str, str]:
    """Return what a sender signs a body with, now if not told otherwise."""
    made = signed(body, secret=secret, id=id, at=at or datetime.now(UTC))
    return {name.lower(): value for name, value in made.items()}


def post(
    path: str, body: bytes = ORDER, *, sent: bytes | None = None, more: Any = None, **how: Any
) -> Any:
    """Send a webhook; `sent` is what its body is on its way."""
    return Client(enforce_csrf_checks=True).post(
        f"/{path}",
        body if sent is None else sent,
        content_type="application/json",
        headers={**headers(body, **how), **(more or {})},
    )


def zipped(body: bytes) -> dict[str, Any]:
    """Return how a body is sent that is zipped on its way."""
    return {"sent": gzip.compress(body), "more": {"content-encoding": "gzip"}}


class TestAWebhook:
    def test_is_handled_once_however_often_it_is_sent(self) -> None:
        statuses = [post("task").status_code for _ in range(2)]
        run_all(raise_errors=True)
        statuses.append(post("task").status_code)
        run_all(raise_errors=True)

        assert statuses == [204] * 3
        assert booked() == [7]

    def test_is_published_under_a_topic(self) -> None:
        assert [post("topic").status_code for _ in range(2)] == [204, 204]

        event = EventInbox.objects.get()
        assert (event.topic, event.key, event.payload["order"]) == ("shop.paid", "all", 7)
        assert event.metadata["external"] == {"id": "m-1", "source": "shop"}

    def test_is_published_under_its_type_behind_its_source(self) -> None:
        post("type", b'{"type": "order.paid", "data": {"order": 7}}')

        assert EventInbox.objects.get().topic == "shop.order.paid"

    def test_keeps_the_digits_of_its_numbers(self) -> None:
        post("topic", b'{"total": 12345678901234567.89, "rate": 0.1}')

        (event,) = read()
        assert event.payload == {"total": Decimal("12345678901234567.89"), "rate": 0.1}

    def test_is_for_whom_a_function_says_or_for_nobody(self) -> None:
        bodies = [{"type": each, "order": 7, "key": each} for each in ("order", "event", "other")]
        found = [
            post("chosen", json.dumps(each).encode(), id=each["type"]).status_code
            for each in bodies
        ]

        assert found == [204, 204, 204]
        assert Message.objects.get().key == "order"
        assert EventInbox.objects.get().key == "event"
        assert Dedupe.objects.count() == 2

    def test_of_an_old_secret_is_taken_as_long_as_that_holds(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert post("both", secret=OTHER).status_code == 204
        assert post("both", secret=SECRET, id="m-2").status_code == 204
        assert post("rotating", secret=OTHER).status_code == 401
        monkeypatch.setattr(urls, "rotating", [OTHER, SECRET])
        assert post("rotating", secret=OTHER, id="m-3").status_code == 204
        assert post("rotating", secret=SECRET, id="m-4").status_code == 204
        monkeypatch.setattr(urls, "rotating", [OTHER])
        assert post("rotating", secret=SECRET, id="m-5").status_code == 401

        assert Message.objects.count() == 4

    def test_may_be_zipped_whichever_form_was_signed(self) -> None:
        assert post("task", **zipped(ORDER)).status_code == 204
        packed = gzip.compress(ORDER)
        answer = Client().post(
            "/task",
            packed,
            content_type="application/json",
            headers=of_bytes(packed, "m-2"),
        )

        assert answer.status_code == 204
        assert Message.objects.count() == 2

    def test_may_be_as_old_as_it_is_told(self) -> None:
        half_an_hour_ago = datetime.now(UTC) - timedelta(minutes=30)

        assert post("task", at=half_an_hour_ago).status_code == 401
        assert post("patient", at=half_an_hour_ago).status_code == 204


def of_bytes(body: bytes, id: str) -> dict[str, str]:
    """Return the headers of a body that is no text, which standardwebhooks does not sign."""
    at = str(int(datetime.now(UTC).timestamp()))
    content = f"{id}.{at}.".encode() + body
    signature = b64encode(hmac.new(b"a" * 32, content, sha256).digest()).decode()
    return {
        "webhook-id": id,
        "webhook-timestamp": at,
        "webhook-signature": f"v1,{signature}",
        "content-encoding": "GZIP",
    }


class TestARefusal:
    def test_of_another_signature_stores_nothing(self) -> None:
        changed = ORDER.replace(b"7", b"8")

        answer = post("task", sent=changed)

        assert (answer.status_code, answer.content) == (
            401,
            b"It was signed with another secret, or changed on its way.\n",
        )
        assert not Message.objects.exists()
        assert not Dedupe.objects.exists()

    def test_of_no_signature_says_what_is_missing(self) -> None:
        answer = Client().post("/task", ORDER, content_type="application/json")

        assert (answer.status_code, answer.content) == (
            401,
            b"The header webhook-id is missing.\n",
        )

    def test_of_a_large_body_is_one_before_it_is_verified(self) -> None:
        large = json.dumps({"order": 7, "x": "x" * 1000}).encode()

        assert post("small", large).status_code == 413
        assert post("small").status_code == 204

    def test_of_what_is_large_unzipped_names_the_limit(self) -> None:
        bomb = json.dumps({"order": 7, "x": "x" * 10**7}).encode()

        answer = post("task", bomb, **zipped(bomb))

        assert len(gzip.compress(bomb)) < 2**20 < len(bomb)
        assert (answer.status_code, answer.content) == (
            413,
            b"A body may have 1048576 bytes, also when it is unzipped.\n",
        )

    @pytest.mark.parametrize("how", [{}, {"content-encoding": "gzip"}], ids=["plain", "gzip"])
    def test_of_a_large_body_takes_no_more_memory_than_its_limit(self, how: dict[str, str]) -> None:
        large = b"x" * 10**8
        request = RequestFactory().post(
            "/", gzip.compress(large, 1) if how else large, content_type="a/b", headers=how
        )
        view = receive_webhook(book, secrets=SECRET, source="shop")

        tracemalloc.start()
        try:
            answer = view(request)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert answer.status_code == 413
        assert peak < 10 * 2**20

    @pytest.mark.parametrize(
        "sent",
        [
            b"no gzip",
            gzip.compress(ORDER)[:-4],
            gzip.compress(ORDER) + b"more",
            gzip.compress(ORDER) + gzip.compress(ORDER),
            zlib.compress(ORDER),
            b"",
        ],
        ids=["text", "cut off", "more", "two", "zlib", "nothing"],
    )
    def test_of_a_broken_gzip_says_so(self, sent: bytes) -> None:
        answer = post("task", sent=sent, more={"content-encoding": "gzip"})

        assert answer.status_code == 400
        assert b"gzip" in answer.content

    def test_of_another_encoding_names_the_one_that_may_be(self) -> None:
        answer = post("task", more={"content-encoding": "br"})

        assert (answer.status_code, b"by gzip" in answer.content) == (415, True)

    @pytest.mark.parametrize(
        "body", [b"", b"no json", b'{"order": NaN}', b"1e" + b"9" * 20, b"[" * 10**5]
    )
    def test_of_what_is_no_json_ends_it(self, body: bytes) -> None:
        answer = post("task", body)

        assert answer.status_code == 422
        assert answer.content.startswith(b"The body is no JSON")

    @pytest.mark.parametrize(
        ("path", "body", "said"),
        [
            ("type", b"[]", b"The body has no type"),
            ("type", b"{}", b"The body has no type"),
            ("type", b'{"type": 5}', b"The body has no type"),
            ("type", b'{"type": "a b"}', b"topic='shop.a b'"),
            ("chosen", b'{"type": "order", "key": 5}', b"key=5"),
            ("wrong", ORDER, b"takes_nothing"),
            ("task", rb'{"order": "\u0000"}', rb"['order'] has a character \x00"),
        ],
    )
    def test_of_what_can_not_be_stored_says_why(self, path: str, body: bytes, said: bytes) -> None:
        answer = post(path, body)

        assert answer.status_code == 400
        assert said in answer.content
        assert not Dedupe.objects.exists()

    def test_of_an_id_that_is_too_long_says_so(self) -> None:
        answer = post("task", id="i" * 800)

        assert (answer.status_code, b"message_id" in answer.content) == (400, True)

    def test_where_the_channel_is_full_asks_to_be_sent_again(self) -> None:
        limit(scope="channel", max_size=1)
        assert post("task").status_code == 204

        answer = post("task", id="m-2")

        assert (answer.status_code, answer["Retry-After"]) == (503, "60")
        assert post("task").status_code == 204

    @pytest.mark.parametrize("method", ["get", "put", "delete", "head"])
    def test_of_other_methods_says_which_may_be(self, method: str) -> None:
        answer = getattr(Client(), method)("/task")

        assert (answer.status_code, answer["Allow"]) == (405, "POST")


class TestTheOptions:
    @pytest.mark.parametrize(
        ("options", "error", "said"),
        [
            ({"secrets": "short"}, InvalidSecret, "base64"),
            ({"secrets": []}, InvalidSecret, "no secret"),
            ({"source": "a:b"}, InvalidMessage, "source='a:b'"),
            ({"tolerance": 0}, InvalidMessage, "tolerance=0"),
            ({"max_bytes": 0}, InvalidMessage, "max_bytes=0"),
            ({"max_bytes": "1k"}, InvalidMessage, "max_bytes='1k'"),
            ({"remember_for": -1}, InvalidMessage, "remember_for=-1"),
            ({"remember_for": 1}, InvalidMessage, "remember_for=1: a signature is valid"),
            ({"remember_for": 599}, InvalidMessage, "twice the tolerance, 0:10:00"),
            ({"remember_for": 60, "tolerance": 31}, InvalidMessage, "remember_for=60"),
            ({"tolerance": timedelta(days=16)}, InvalidMessage, "remember_for="),
            ({"database": "none"}, InvalidMessage, "database='none'"),
            ({"key": 5}, InvalidMessage, "key=5"),
            ({"to": "a b"}, InvalidEvent, "topic='a b'"),
            ({"to": 5}, InvalidEvent, "topic=5"),
            ({"to": None, "source": ""}, InvalidEvent, "topic=''"),
        ],
    )
    def test_are_checked_when_the_view_is_made(
        self, options: dict[str, Any], error: type[Exception], said: str
    ) -> None:
        given: dict[str, Any] = {"to": book, "secrets": SECRET, "source": "shop", **options}

        with pytest.raises(error, match=said):
            receive_webhook(**given)


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def under_wsgi() -> Iterator[int]:
    with make_server("127.0.0.1", 0, get_wsgi_application(), handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def under_asgi() -> Iterator[int]:
    config = uvicorn.Config(get_asgi_application(), port=0, lifespan="off", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@override_settings(ALLOWED_HOSTS=["127.0.0.1"])
@pytest.mark.parametrize("deployed", [under_wsgi, under_asgi])
def test_a_server_of_either_kind_takes_it_once(deployed: Callable[[], Any]) -> None:
    def send(port: int, body: bytes, **more: str) -> int:
        with closing(HTTPConnection("127.0.0.1", port, timeout=10)) as connection:
            connection.request("POST", "/task", body, {**headers(ORDER), **more})
            return connection.getresponse().status

    with deployed() as port:
        plain, other = send(port, ORDER), send(port, ORDER + b" ")
        packed = send(port, gzip.compress(ORDER), **{"content-encoding": "gzip"})
        large = send(port, b"x" * (2**20 + 1))

    assert [plain, other, packed, large] == [204, 401, 204, 413]
    run_all(raise_errors=True)
    assert booked() == [7]


def test_what_webhooks_of_our_own_post_is_taken(
    settings: Any, dispatch: Callable[[], None]
) -> None:
    settings.ALLOWED_HOSTS = ["127.0.0.1"]
    settings.PGQUEUE = {**settings.PGQUEUE, "WEBHOOKS": {"ALLOW_PRIVATE": ["127.0.0.0/8"]}}
    targets.forget_all()
    with under_wsgi() as port:
        url = f"http://127.0.0.1:{port}/type"
        webhooks.create("out", url, topics="parcel.*", secret=SECRET)
        publish_many([("parcel.sent", {"n": 1}), ("parcel.sent", {"n": 2, "zipped": "x" * 2000})])
        dispatch()
        run_all(raise_errors=True)
    targets.forget_all()

    assert [each.payload["data"]["n"] for each in read(topics="shop.**")] == [1, 2]


def test_no_variable_of_a_views_frames_shows_its_key() -> None:
    """An error tracker reads them."""
    view = receive_webhook(source="shop", secrets=SECRET, to="an.order")

    cells = [repr(cell.cell_contents) for cell in inspect.unwrap(view).__closure__ or ()]

    key = repr(b64decode(SECRET.removeprefix("whsec_")))[2:-1]
    assert len(cells) > 3
    assert not [each for each in cells if key in each or SECRET in each]


def test_an_id_may_be_remembered_for_exactly_as_long_as_its_signature_is_taken() -> None:
    receive_webhook(source="shop", secrets=SECRET, to="an.order", tolerance=300, remember_for=600)
