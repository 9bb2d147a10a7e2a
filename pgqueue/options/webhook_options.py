"""The options of webhooks, in code, in the admin and in the project's settings."""

from __future__ import annotations

import re
import socket
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from secrets import token_bytes
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from pgqueue.options.addresses import Network, as_networks, is_allowed
from pgqueue.options.retries import (
    Backoff,
    Exponential,
    as_backoff,
    declare,
)
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_text
from pgqueue.values.number_checks import as_count, as_duration

URL_LIMIT = 2000
HEADERS_LIMIT = 8000
"""The limit of bytes for all headers together."""
SCHEMES = {"http": 80, "https": 443}
IN_URLS = "%/:=&?~#+!$,;'@()*[]"
"""The characters that are not quoted in a URL."""
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
OURS = (
    *("connection", "content-encoding", "content-length", "content-type", "expect", "host"),
    *("accept-encoding", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
)
OUR_PREFIXES = ("webhook-", "proxy-")
"""The prefixes of headers that pgqueue or HTTP controls: a user must not set these."""
SECRET = "whsec_"  # noqa: S105
SECRET_BYTES = range(24, 65)
NEW_SECRET_BYTES = 32
LONGEST_TIMEOUT = timedelta(minutes=5)


class Origin(NamedTuple):
    """The server of requests. Requests with equal origins may share a connection."""

    scheme: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """The options of `PGQUEUE["WEBHOOKS"]` in lower case, with their defaults."""

    timeout: timedelta = timedelta(seconds=10)
    """The limit of a post, from the look-up of the name to the end of the response."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of each post. A webhook's own headers take precedence."""
    backoff: Backoff = field(default_factory=lambda: Exponential(base=10, cap=43_200))
    """The wait of a failed delivery."""
    max_attempts: int = 16
    """The number of errors after which a delivery is a dead letter: two days by this backoff."""
    pause_after: timedelta | None = timedelta(days=1)
    """A webhook is paused after this time of failures without a success; None: never."""
    allow_private: tuple[Network, ...] = ()
    """Networks to which webhooks may be posted, in addition to public ones."""
    source: str = "/pgqueue"
    """The `source` of CloudEvents: a URI that is unique to this project's events."""


def as_endpoints(given: Any) -> Endpoints:
    """Return the options of `PGQUEUE["WEBHOOKS"]`.

    Raises:
        ImproperlyConfigured: an option is unknown, or its value is invalid.
    """
    if not isinstance(given, Mapping):
        raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'] = {shown(given)}: it must be a dict.")
    known = [each.name.upper() for each in fields(Endpoints)]
    for name in given:
        if name not in known:
            meant = hint(str(name).upper(), known)
            raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'] has no option {shown(name)}. {meant}")
    return Endpoints(**{name.lower(): _checked(name, value) for name, value in given.items()})


def _checked(name: str, value: Any) -> Any:
    try:
        return _CHECKS[name](value)
    except (TypeError, ValueError) as error:
        # A header's value may be a password.
        said = "" if name == "HEADERS" else f" = {shown(value)}"
        raise ImproperlyConfigured(f"PGQUEUE['WEBHOOKS'][{name!r}]{said}: {error}") from error


def as_timeout(value: Any) -> timedelta:
    """Return `value`, seconds or a timedelta, if it is a valid timeout of a post.

    Raises:
        TypeError, ValueError: it is invalid.
    """
    timeout = as_duration(value)
    if timeout > LONGEST_TIMEOUT:
        raise ValueError(f"it may be {LONGEST_TIMEOUT.total_seconds():.0f} seconds at most.")
    return timeout


def as_headers(value: Any) -> dict[str, str]:
    """Return `value` if these are valid headers of a user.

    Raises:
        TypeError, ValueError: a header is invalid.
    """
    if not isinstance(value, Mapping):
        raise TypeError("it must be a dict of texts.")
    for name, text in value.items():
        if not isinstance(name, str) or not HEADER.fullmatch(name):
            raise ValueError(f"{shown(name)} is no name of a header.")
        if name.lower() in OURS or name.lower().startswith(OUR_PREFIXES):
            raise ValueError(f"{name} is set by pgqueue itself.")
        # Its value may be a password.
        if not isinstance(text, str) or not VALUE.fullmatch(text):
            raise ValueError(f"the value of {name} must be text in one line, of Latin characters.")
    names = [name.lower() for name in value]
    if len(set(names)) < len(names):
        raise ValueError("a header is given twice.")
    if sum(len(name) + len(text) for name, text in value.items()) > HEADERS_LIMIT:
        raise ValueError(f"they may have {HEADERS_LIMIT} characters at most.")
    return dict(value)


def as_url(value: Any, networks: tuple[Network, ...] = ()) -> str:
    """Return `value` if it is a valid URL of a webhook. The name of the host is not looked up.

    Args:
        networks: networks that are allowed in addition to public ones.

    Raises:
        TypeError, ValueError: the URL is invalid.
    """
    url = as_text(value, URL_LIMIT)
    origin, _ = parsed(url)
    if not may_be_posted_to(origin.host, networks):
        raise ValueError(
            "its address is private: PGQUEUE['WEBHOOKS']['ALLOW_PRIVATE'] must allow it."
        )
    return url


def parsed(url: str) -> tuple[Origin, str]:
    """Return the origin of a URL, and the target that requests send.

    Raises:
        ValueError: the URL is invalid. The error's text does not contain the URL.
    """
    if any(each <= " " or each in "\\\x7f" for each in url):
        raise ValueError("it must have no spaces or control characters.")
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise ValueError("it must begin with https:// or http://.")
    if "@" in parts.netloc:
        raise ValueError("it must have no user or password: use a header for credentials.")
    if parts.fragment:
        raise ValueError("it must have no fragment ('#'), which is never sent.")
    host = parts.hostname or ""
    if "%" in host:
        raise ValueError("its host must have no '%'.")
    try:
        ascii_host = host if ":" in host else host.encode("idna").decode("ascii")
        port = parts.port
    except ValueError as error:
        raise ValueError("its host or its port is invalid.") from error
    if not ascii_host or port == 0:
        raise ValueError("it must have a host, and no port 0.")
    target = quote(parts.path or "/", safe=IN_URLS)
    if parts.query:
        target += f"?{quote(parts.query, safe=IN_URLS)}"
    return Origin(parts.scheme, ascii_host.lower(), port or SCHEMES[parts.scheme]), target


def may_be_posted_to(host: str, networks: tuple[Network, ...]) -> bool:
    """Return whether a host may be posted to, if it is an address; True for other names."""
    name = host.rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return is_allowed("127.0.0.1", networks)
    try:
        # Also other forms that the C library accepts as addresses: 2130706433, 0x7f.1.
        found = socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return True
    return all(is_allowed(str(address[0]), networks) for *_, address in found)


def new_secret() -> str:
    """Return a new random secret."""
    return SECRET + b64encode(token_bytes(NEW_SECRET_BYTES)).decode()


def as_secret(value: Any) -> str:
    """Return `value` if it is a valid secret: "whsec_" and 24 to 64 bytes in base64.

    Raises:
        TypeError, ValueError: it is invalid. The error's text does not contain it.
    """
    secret = as_text(value, URL_LIMIT)
    if not secret.startswith(SECRET):
        raise ValueError(f"it must begin with {SECRET!r}.")
    try:
        size = len(key_of(secret))
    except (NoBase64, ValueError) as error:
        raise ValueError(f"it must be base64 behind {SECRET!r}.") from error
    if size not in SECRET_BYTES:
        raise ValueError(f"it must have {SECRET_BYTES[0]} to {SECRET_BYTES[-1]} bytes.")
    return secret


def key_of(secret: str) -> bytes:
    """Return the key of a secret as bytes.

    Raises:
        ValueError: the secret is not base64.
    """
    return b64decode(secret.removeprefix(SECRET), validate=True)


def _backoff(value: Any) -> Backoff:
    backoff = as_backoff(value)
    declare(backoff)
    return backoff


def _source(value: Any) -> str:
    if not value or any(each <= " " for each in as_text(value, URL_LIMIT)):
        raise ValueError("it must be a URI, or a part of one.")
    return str(value)


_CHECKS = {
    "TIMEOUT": as_timeout,
    "HEADERS": as_headers,
    "BACKOFF": _backoff,
    "MAX_ATTEMPTS": as_count,
    "PAUSE_AFTER": lambda value: None if value is None else as_duration(value),
    "ALLOW_PRIVATE": as_networks,
    "SOURCE": _source,
}
