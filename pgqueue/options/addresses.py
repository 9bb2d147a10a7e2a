"""Which addresses webhooks may be posted to: none that lead inside, unless the project says so.

Whoever may enter a URL could have workers ask what only they can reach: a service on loopback, the
cloud's metadata, a neighbour. So the address itself is checked, after the name was looked up, and
not the name. `is_global` alone lets some of these pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, TypeAlias

from pgqueue.values.error_words import shown

Address: TypeAlias = "IPv4Address | IPv6Address"
Network: TypeAlias = "IPv4Network | IPv6Network"

PRIVATE: tuple[Network, ...] = tuple(
    map(
        ip_network,
        (
            *("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
            *("127.0.0.0/8", "::1/128"),
        ),
    )
)
"""What `True` allows. Not link-local ones: clouds have their metadata there."""
GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")


def as_networks(value: Any) -> tuple[Network, ...]:
    """Return the networks that may be posted to besides public ones.

    Args:
        value: False: none; True: private ones and loopback; or a list such as ["10.1.0.0/16"].

    Raises:
        TypeError, ValueError: it is none of these.
    """
    if isinstance(value, bool):
        return PRIVATE if value else ()
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise TypeError("it must be True, False or a list of networks.")
    return tuple(map(_network, value))


def _network(value: Any) -> Network:
    if not isinstance(value, str | IPv4Network | IPv6Network):
        raise TypeError(f"{shown(value)} is no network, such as '10.1.0.0/16'.")
    try:
        return ip_network(value)
    except ValueError as error:
        raise ValueError(f"{shown(value)} is no network: {error}.") from error


@lru_cache(1024)
def is_allowed(text: str, networks: tuple[Network, ...] = ()) -> bool:
    """Return whether this address may be posted to.

    Args:
        text: as `getaddrinfo` gives it.
        networks: those that are allowed besides public ones.
    """
    # Behind the %: the interface that a link-local address is of.
    address = _meant(ip_address(text.partition("%")[0]))
    return _is_public(address) or any(address in network for network in networks)


def _meant(address: Address) -> Address:
    """Return the address that this one is another form of."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in NAT64:
            return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv6Address):
        # Tunnels end at addresses of version 4, whatever these are.
        is_tunnel = address.sixtofour is not None or address.teredo is not None
        return address in GLOBAL_UNICAST and not is_tunnel
    return True
