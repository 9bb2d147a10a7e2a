"""What a webhook's URL, headers and secret can be, and what the settings say of all."""

from __future__ import annotations

from base64 import b64encode
from datetime import timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from pgqueue.conf import read
from pgqueue.options.addresses import PRIVATE
from pgqueue.options.retries import Delays, Exponential
from pgqueue.options.webhook_options import (
    as_headers,
    as_secret,
    key_of,
    new_secret,
)
from pgqueue.options.webhook_urls import as_url, parsed


def test_nothing_need_be_set() -> None:
    options = read({}).webhooks

    assert options.timeout == timedelta(seconds=10)
    assert (options.headers, options.allow_private, options.source) == ({}, (), "/pgqueue")
    assert options.backoff == Exponential(base=10, cap=43_200)
    assert (options.max_attempts, options.pause_after) == (16, timedelta(days=1))


def test_all_of_it_may_be() -> None:
    given = {
        "TIMEOUT": 3,
        "HEADERS": {"X-From": "shop"},
        "BACKOFF": [1, 2],
        "MAX_ATTEMPTS": 3,
        "PAUSE_AFTER": None,
        "ALLOW_PRIVATE": True,
        "SOURCE": "https://shop.example/",
    }

    options = read({"WEBHOOKS": given}).webhooks

    assert (options.timeout, options.headers) == (timedelta(seconds=3), {"X-From": "shop"})
    assert (options.backoff, options.max_attempts) == (Delays((1.0, 2.0)), 3)
    assert (options.pause_after, options.allow_private) == (None, PRIVATE)
    assert options.source == "https://shop.example/"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"TIMEOUTS": 3}, "no option 'TIMEOUTS'. Did you mean 'TIMEOUT'"),
        ({"TIMEOUT": 0}, r"'TIMEOUT'\] = 0: it must be longer than 0"),
        ({"TIMEOUT": 301}, r"'TIMEOUT'\] = 301: it may be 300 seconds at most"),
        ({"HEADERS": {"Host": "a"}}, "Host is set by pgqueue itself"),
        ({"BACKOFF": "often"}, r"'BACKOFF'\] = 'often': .* is no backoff"),
        ({"MAX_ATTEMPTS": 0}, r"'MAX_ATTEMPTS'\] = 0: it must be a whole number"),
        ({"PAUSE_AFTER": -1}, r"'PAUSE_AFTER'\] = -1: it must be longer"),
        ({"ALLOW_PRIVATE": "yes"}, r"'ALLOW_PRIVATE'\] = 'yes': it must be True, False or a list"),
        ({"ALLOW_PRIVATE": ["10.0.0.1/8"]}, "has host bits set"),
        ({"SOURCE": "a b"}, r"'SOURCE'\] = 'a b': it must be a URI"),
        ([1], "it must be a dict"),
    ],
)
def test_what_can_not_be_is_named(given: Any, said: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=said):
        read({"WEBHOOKS": given})


def test_what_stands_in_a_header_is_not_told() -> None:
    with pytest.raises(ImproperlyConfigured, match="HEADERS") as error:
        read({"WEBHOOKS": {"HEADERS": {"Authorization": "hidden", "Host": "a"}}})

    assert "hidden" not in str(error.value)


@pytest.mark.parametrize(
    ("url", "origin", "path"),
    [
        ("https://example.com", ("https", "example.com", 443), "/"),
        ("http://Example.com:8080/a?b=c", ("http", "example.com", 8080), "/a?b=c"),
        ("https://b\u00fccher.example/\u00e4", ("https", "xn--bcher-kva.example", 443), "/%C3%A4"),
        ("https://[2606:4700::1111]:444/a%20b", ("https", "2606:4700::1111", 444), "/a%20b"),
    ],
)
def test_a_url_says_where_and_what(url: str, origin: tuple[str, str, int], path: str) -> None:
    assert as_url(url) == url
    assert parsed(url) == (origin, path)


@pytest.mark.parametrize(
    "url",
    [
        *("", "example.com", "ftp://example.com/", "file:///etc/passwd", "//example.com/a"),
        *("https://", "https://user:secret@example.com/", "https://me@example.com/"),
        *("https://example.com/#a", "https://example.com:0/", "https://example.com:99999/"),
        *("https://exa mple.com/", "https://example.com/\n", "https://example.com\\@localhost/"),
        *("https://[fe80::1%25eth0]/", f"https://{'a' * 64}.com/", "https://example.com/" * 200),
        *("https://localhost/", "https://a.localhost./", "https://127.0.0.1/", "https://0x7f.1/"),
        *("https://2130706433/", "https://[::1]/", "https://169.254.169.254/latest", None, 1),
    ],
)
def test_others_are_refused(url: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        as_url(url)

    assert "secret" not in str(error.value)


def test_a_private_one_is_taken_where_that_is_allowed() -> None:
    assert as_url("http://localhost:8000/", PRIVATE)
    assert as_url("http://127.0.0.1:8000/", PRIVATE)


@pytest.mark.parametrize(
    "headers",
    [
        *({"Webhook-Id": "1"}, {"webhook-anything": "1"}, {"Content-Length": "1"}),
        *({"Content-Type": "a"}, {"Transfer-Encoding": "chunked"}, {"Proxy-Authorization": "a"}),
        *({"X": "a\r\nY: b"}, {"X": "\x00"}, {"X": "\u0416"}, {"X Y": "a"}, {"": "a"}, {"X": 1}),
        *({1: "a"}, {"X": "a" * 9000}, {"X": "a", "x": "b"}, ["X"], None),
    ],
)
def test_headers_that_are_not_the_users_or_no_headers_are_refused(headers: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        as_headers(headers)


def test_a_refused_header_does_not_tell_its_value() -> None:
    with pytest.raises(ValueError, match="X-Token") as error:
        as_headers({"X-Token": "hidden\n"})

    assert "hidden" not in str(error.value)


def test_a_new_secret_is_one_and_no_other() -> None:
    secrets = {new_secret() for _ in range(10)}

    assert len(secrets) == 10
    assert {len(key_of(as_secret(secret))) for secret in secrets} == {32}


@pytest.mark.parametrize(
    "secret",
    [
        *("", "whsec_", "hidden", "whsec_hidden", None, 1, b64encode(bytes(32)).decode()),
        *(f"whsec_{b64encode(bytes(size)).decode()}" for size in (23, 65)),
    ],
)
def test_a_secret_that_is_none_is_refused_and_not_told(secret: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as error:
        as_secret(secret)

    assert "hidden" not in str(error.value)
