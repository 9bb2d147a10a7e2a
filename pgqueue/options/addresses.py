"""The addresses to which webhooks may be posted: only public ones, unless the project allows more.

Otherwise a user who may enter a URL could make workers query internal services: loopback, a cloud's
metadata, a neighbour. So the address is checked after the look-up of the name, not the name.
`is_global` alone accepts some internal addresses.
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
"""The networks that `True` allows; not link-local addresses, where clouds have their metadata."""
GLOBAL_UNICAST = IPv6Network("2000::/3")
NAT64 = IPv6Network("64:ff9b::/96")


def as_networks(value: Any) -> tuple[Network, ...]:
    """Return the networks to which webhooks may be posted, in addition to public ones.

    Args:
        value: False: no networks; True: private networks and loopback; or a list such as
            ["10.1.0.0/16"].

    Raises:
        TypeError, ValueError: the value has another form.
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
    """Return whether webhooks may be posted to this address.

    Args:
        text: the address as `getaddrinfo` returns it.
        networks: networks that are allowed in addition to public ones.
    """
    # The % is followed by the interface of a link-local address.
    address = _meant(ip_address(text.partition("%")[0]))
    return _is_public(address) or any(address in network for network in networks)


def _meant(address: Address) -> Address:
    """Return the IPv4 address inside a mapped or NAT64 address; other addresses unchanged."""
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
        # Tunnels end at IPv4 addresses, which may be private.
        is_tunnel = address.sixtofour is not None or address.teredo is not None
        return address in GLOBAL_UNICAST and not is_tunnel
    return True
