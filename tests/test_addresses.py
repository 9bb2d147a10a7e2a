"""Which addresses webhooks may be posted to: a table."""

from __future__ import annotations

import socket
from ipaddress import ip_network
from typing import Any

import pytest

from pgqueue.options.addresses import PRIVATE, as_networks, is_allowed

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
OWN = [
    *("127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
    *("10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1"),
    *("fd12::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
]
NEVER = [
    *("0.0.0.0", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0", "::ffff:169.254.169.254"),  # noqa: S104
    *("224.0.0.1", "239.1.2.3", "255.255.255.255", "240.0.0.1", "ff02::1", "ff0e::1"),
    *("fec0::1", "2002:7f00:1::", "2002:808:808::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    *("::7f00:1", "192.0.2.1", "198.18.0.1", "2001:db8::1", "100::1", "64:ff9b::a9fe:a9fe"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_may_be_posted_to(address: str) -> None:
    assert is_allowed(address)


@pytest.mark.parametrize("address", OWN)
def test_a_private_one_may_only_where_that_is_allowed(address: str) -> None:
    assert not is_allowed(address)
    assert is_allowed(address, PRIVATE)


@pytest.mark.parametrize("address", NEVER)
def test_others_may_not_although_private_ones_may(address: str) -> None:
    assert not is_allowed(address)
    assert not is_allowed(address, PRIVATE)


@pytest.mark.parametrize("written", ["2130706433", "0x7f.1", "127.1", "0177.0.0.1", "0"])
def test_what_the_c_library_takes_for_loopback_is_refused(written: str) -> None:
    found = socket.getaddrinfo(written, 80, type=socket.SOCK_STREAM)

    assert found
    assert not [each for *_, each in found if is_allowed(str(each[0]))]


def test_a_network_may_be_allowed_by_itself() -> None:
    networks = as_networks(["169.254.7.0/24", "10.1.0.0/16"])

    assert is_allowed("169.254.7.1", networks)
    assert is_allowed("::ffff:10.1.2.3", networks)
    assert not is_allowed("169.254.169.254", networks)
    assert not is_allowed("10.2.0.1", networks)


def test_networks_are_none_private_ones_or_a_list() -> None:
    assert as_networks(False) == ()
    assert as_networks(True) == PRIVATE
    assert as_networks([ip_network("10.0.0.0/8")]) == (ip_network("10.0.0.0/8"),)


@pytest.mark.parametrize("value", [None, "10.0.0.0/8", 10, ["10.0.0.1/8"], ["all"], [None], {}])
def test_anything_else_is_no_list_of_networks(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        as_networks(value)
