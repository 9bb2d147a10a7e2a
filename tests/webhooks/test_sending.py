"""Posts to real sockets: whom they reach, how long they take, and what is kept of an answer."""

from __future__ import annotations

import logging
import socket
import ssl
import subprocess
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pytest
import urllib3

from pgqueue.exceptions import DeliveryFailed
from pgqueue.options.webhook_urls import parsed
from pgqueue.webhooks import sending
from pgqueue.webhooks.sending import Response
from tests import programs
from tests.webhooks.receiver import Receiver, receiving, speaking

LOOPBACK = (ip_network("127.0.0.0/8"),)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> Iterator[None]:
    sending._manager.cache_clear()
    yield
    sending._manager().clear()
    sending._manager.cache_clear()


def post(url: str, body: bytes = b"{}", timeout: float = 5, **given: Any) -> Response:
    headers = {"content-type": "application/json", **given.pop("headers", {})}
    options = {"networks": LOOPBACK, **given}
    return sending.post(*parsed(url), body, headers, timeout=timeout, **options)


def refused(url: str, **given: Any) -> str:
    with pytest.raises(DeliveryFailed) as error:
        post(url, **given)
    assert error.value.__cause__ is None
    return str(error.value)


def test_what_is_posted_arrives_and_what_is_answered_is_returned(receiver: Receiver) -> None:
    receiver.answer(201, b"made", retry_after="7")

    response = post(f"{receiver.url}?a=b", b"body", headers={"x-own": "yes"})

    assert (response.status, response.excerpt, response.retry_after) == (201, "made", "7")
    assert 0 < response.seconds < 5
    [got] = receiver.posts
    assert (got.path, got.body, got.headers["x-own"]) == ("/hooks?a=b", b"body", "yes")
    assert "127.0.0.1" in got.headers["host"]


def test_a_connection_is_kept(receiver: Receiver) -> None:
    for size in (0, 10, 5000):
        receiver.answer(200, b"x" * size)
        post(receiver.url)

    post(receiver.url)

    assert len({each.client for each in receiver.posts}) == 1


def test_a_kept_connection_is_not_used_for_longer_than_its_time(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(receiver.url)
    monkeypatch.setattr(sending, "KEPT_FOR", 0)

    post(receiver.url)

    assert len({each.client for each in receiver.posts}) == 2


def test_a_kept_connection_is_not_used_where_its_address_is_allowed_no_longer(
    receiver: Receiver,
) -> None:
    post(receiver.url)

    assert "127.0.0.1 is private" in refused(receiver.url, networks=())
    assert len(receiver.posts) == 1


def test_a_kept_connection_that_the_endpoint_has_closed_is_made_anew(receiver: Receiver) -> None:
    receiver.answer(200, b"bye", connection="close")
    post(receiver.url)

    assert post(receiver.url).status == 200


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver: Receiver, status: int) -> None:
    receiver.answer(status, location=f"{receiver.url}/elsewhere")

    assert post(receiver.url).status == status
    assert len(receiver.posts) == 1


def test_no_proxy_of_the_environment_is_asked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")

    assert post(receiver.url).status == 200


class TestAddresses:
    def test_a_private_one_is_refused_before_anything_connects(self) -> None:
        with speaking(lambda connection, over: None) as (url, accepted):
            assert "ALLOW_PRIVATE" in refused(url, networks=())

        assert not accepted

    @pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "[::ffff:127.0.0.1]"])
    def test_whatever_it_is_called(self, host: str) -> None:
        with speaking(lambda connection, over: None) as (url, accepted):
            port = url.rpartition(":")[2]
            assert "is private" in refused(f"http://{host}:{port}", networks=())

        assert not accepted

    def test_a_name_that_has_a_private_one_beside_others_is_refused(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        known = {"shop.test": ["127.0.0.1", "169.254.169.254"]}
        resolve(monkeypatch, known)
        url = receiver.url.replace("127.0.0.1", "shop.test")

        assert "169.254.169.254 is private" in refused(url)
        assert not receiver.posts

    def test_what_is_connected_to_is_what_was_checked(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        resolve(monkeypatch, {"shop.test": ["127.0.0.1"]}, asked)
        url = receiver.url.replace("127.0.0.1", "shop.test")

        post(url)

        assert asked == ["shop.test"]
        assert receiver.posts[0].headers["host"].startswith("shop.test:")

    def test_the_next_one_is_tried_where_one_does_not_answer(
        self, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resolve(monkeypatch, {"shop.test": ["127.0.0.9", "127.0.0.1"]})

        assert post(receiver.url.replace("127.0.0.1", "shop.test")).status == 200

    def test_a_name_that_is_none_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        resolve(monkeypatch, {})

        assert refused("http://nowhere.test/token") == (
            "The connection failed: its name can't be looked up"
        )

    def test_a_look_up_that_hangs_ends_with_the_exchange(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        over = Event()
        resolve(monkeypatch, {"slow.test": ["127.0.0.1"]}, before=lambda: over.wait(30))
        began = monotonic()

        assert "did not answer within 0.2 s" in refused("http://slow.test/", timeout=0.2)

        over.set()
        assert monotonic() - began < 10


def resolve(
    monkeypatch: pytest.MonkeyPatch,
    known: dict[str, list[str]],
    asked: list[str] | None = None,
    before: Any = lambda: None,
) -> None:
    """Have names mean what is said here."""
    real = socket.getaddrinfo

    def getaddrinfo(host: str, port: int, *args: Any, **options: Any) -> Any:
        if options.get("flags", 0) & socket.AI_NUMERICHOST or not host.endswith(".test"):
            return real(host, port, *args, **options)
        before()
        if asked is not None:
            asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [real(each, port, type=socket.SOCK_STREAM)[0] for each in known[host]]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def head(connection: socket.socket) -> None:
    """Read a request."""
    connection.recv(65536)


class TestTime:
    def check(self, say: Any) -> str:
        began = monotonic()
        with speaking(say) as (url, _):
            said = refused(url, timeout=0.4)
        assert monotonic() - began < 10
        return said

    def test_an_endpoint_that_says_nothing_is_left(self) -> None:
        assert "did not answer within 0.4 s" in self.check(lambda connection, over: over.wait(30))

    def test_one_that_trickles_its_headers_is_left(self) -> None:
        def trickle(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not over.wait(0.05):
                connection.sendall(b"X: y\r\n"[:1])

        assert "did not answer" in self.check(trickle)

    def test_one_that_reads_nothing_is_left(self) -> None:
        began = monotonic()
        with speaking(lambda connection, over: over.wait(30)) as (url, _):
            said = refused(url, body=bytes(16 * 1024 * 1024), timeout=0.4)

        assert "did not answer" in said
        assert monotonic() - began < 10

    def test_a_body_without_end_ends_with_the_time_and_its_status_counts(self) -> None:
        def trickle(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while not over.wait(0.05):
                connection.sendall(b"x")

        began = monotonic()
        with speaking(trickle) as (url, _):
            assert post(url, timeout=2).status == 200
        assert monotonic() - began < 10

    def test_a_huge_body_is_read_to_a_bound(self) -> None:
        sent = [0]

        def pour(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 100000000000\r\n\r\n")
            while not over.is_set():
                sent[0] += connection.send(b"x" * 4096)

        with speaking(pour) as (url, _):
            response = post(url, timeout=100)

        assert (response.status, response.excerpt) == (503, "x" * 1024)
        assert sent[0] < 16 * 1024 * 1024

    def test_a_compressed_answer_is_not_unpacked(self, receiver: Receiver) -> None:
        receiver.answer(200, b"\x1f\x8b\x00not gzip", content_encoding="gzip")

        response = post(receiver.url)

        assert response.excerpt == "\x1f\ufffdnot gzip"


class TestInterimResponses:
    INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"

    def test_the_answer_behind_them_is_the_answer_of_its_own_post(self) -> None:
        def say(connection: socket.socket, over: Event) -> None:
            for status in (503, 200, 410):
                head(connection)
                connection.sendall(self.INTERIM)
                over.wait(0.1)
                connection.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)

        with speaking(say) as (url, accepted):
            answers = [post(url).status for _ in range(3)]

        assert answers == [503, 200, 410]
        assert len(accepted) == 1

    def test_too_many_of_them_are_a_failure(self) -> None:
        def say(connection: socket.socket, over: Event) -> None:
            head(connection)
            while not over.is_set():
                connection.sendall(self.INTERIM)

        with speaking(say) as (url, _):
            assert "more than 20 interim responses" in refused(url, timeout=60)

    def test_they_end_with_the_time(self) -> None:
        def say(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(self.INTERIM)
            over.wait(30)

        with speaking(say) as (url, _):
            assert "did not answer within 0.4 s" in refused(url, timeout=0.4)

    def test_a_switch_of_the_protocol_is_an_answer_and_ends_its_connection(self) -> None:
        def say(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            over.wait(30)

        with speaking(say) as (url, accepted):
            assert [post(url).status, post(url).status] == [101, 101]

        assert len(accepted) == 2


class TestFailures:
    def test_an_endpoint_that_is_not_there_says_so(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]

        said = refused(f"http://127.0.0.1:{port}/token?key=hidden")

        assert said == "It can't be reached: Connection refused."

    @pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 none\r\n", b"SSH-2.0\r\n", b"\x15\x03\x01"])
    def test_what_speaks_no_http_is_a_failure(self, answer: bytes) -> None:
        def say(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(answer)

        with speaking(say) as (url, _):
            said = refused(f"{url}token?key=hidden")

        assert said
        assert "hidden" not in said

    def test_nothing_is_logged_that_has_the_url(
        self, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        def answer_oddly(connection: socket.socket, over: Event) -> None:
            head(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\nno header\r\ncontent-length: 2\r\n\r\nok")

        caplog.set_level(logging.DEBUG)
        post(f"{receiver.url}?key=hidden")
        with speaking(lambda connection, over: None) as (url, _):
            refused(f"{url}?key=hidden")
        with speaking(answer_oddly) as (url, _):
            post(f"{url}?key=hidden")

        assert "hidden" not in caplog.text
        assert not [each for each in caplog.records if each.name.startswith("urllib3")]

    def test_what_others_log_with_the_library_is_kept(
        self, receiver: Receiver, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        post(receiver.url)

        urllib3.request("POST", f"{receiver.url}?key=other", body=b"{}")

        assert "key=other" in caplog.text


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for `right.test`, which is its own authority."""
    openssl = programs.find("openssl", package="openssl")
    path = tmp_path_factory.mktemp("tls") / "right.pem"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=right.test", "-addext", "subjectAltName=DNS:right.test"]
    where = ["-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    subprocess.run([*command, *names, *where], check=True, capture_output=True)
    with path.open("a") as file:
        file.write(path.with_suffix(".crt").read_text())
    return path


@pytest.fixture
def tls_receiver(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """An endpoint with TLS, whose authority is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    resolve(monkeypatch, {"right.test": ["127.0.0.1"], "wrong.test": ["127.0.0.1"]})
    with receiving(tls=context) as receiver:
        yield receiver


class TestTLS:
    def test_a_certificate_of_the_name_is_accepted_though_the_address_is_pinned(
        self, tls_receiver: Receiver
    ) -> None:
        url = tls_receiver.url.replace("127.0.0.1", "right.test")

        assert post(url).status == post(url).status == 200
        assert len({each.client for each in tls_receiver.posts}) == 1

    def test_one_of_another_name_is_refused(self, tls_receiver: Receiver) -> None:
        said = refused(tls_receiver.url.replace("127.0.0.1", "wrong.test"))

        assert said.startswith("TLS: ")
        assert not tls_receiver.posts

    def test_one_of_nobody_who_is_trusted_is_refused(
        self, tls_receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("SSL_CERT_FILE")

        assert "TLS: " in refused(tls_receiver.url.replace("127.0.0.1", "right.test"))

    def test_a_greeting_that_takes_too_long_is_left(self) -> None:
        began = monotonic()
        with speaking(lambda connection, over: over.wait(30)) as (url, _):
            said = refused(url.replace("http://", "https://"), timeout=0.4)

        assert "did not answer within 0.4 s" in said
        assert monotonic() - began < 10
