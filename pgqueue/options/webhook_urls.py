"""The URLs of webhooks."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple
from urllib.parse import SplitResult, quote, urlsplit

from pgqueue.options.addresses import Network, is_allowed
from pgqueue.values.names import as_text

URL_LIMIT = 2000
SCHEMES = {"http": 80, "https": 443}
IN_URLS = "%/:=&?~#+!$,;'@()*[]"
"""The characters that are not quoted in a URL."""


class Origin(NamedTuple):
    """The server of requests. Requests with equal origins may share a connection."""

    scheme: str
    host: str
    port: int


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
    target = quote(parts.path or "/", safe=IN_URLS)
    if parts.query:
        target += f"?{quote(parts.query, safe=IN_URLS)}"
    return _origin(parts), target


def _origin(parts: SplitResult) -> Origin:
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
    return Origin(parts.scheme, ascii_host.lower(), port or SCHEMES[parts.scheme])


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
