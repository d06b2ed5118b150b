"""Network addresses as people write them."""

from __future__ import annotations

import pytest

from llmgw.errors import Invalid
from llmgw.kit import addresses
from llmgw.kit.addresses import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", Address("", 8080)),
        ("*:8080", Address("", 8080)),
        ("10.0.0.5:0", Address("10.0.0.5", 0)),
        ("[::1]:443", Address("::1", 443)),
        ("gw.example.com:7443", Address("gw.example.com", 7443)),
    ],
)
def test_addresses(text, address):
    assert addresses.parse(text) == address
    assert addresses.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "8080", "h:", "h:http", "h:65536", "h:-1", "::1:80", "h:٣"])
def test_what_is_no_address(text):
    with pytest.raises(Invalid, match="is no address"):
        addresses.parse(text)


@pytest.mark.parametrize(
    ("text", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.0.0.2:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        (":1", False),
        ("10.0.0.1:1", False),
        ("127.example.com:1", False),
    ],
)
def test_loopback_is_told_from_the_rest(text, is_loopback):
    assert addresses.parse(text).is_loopback is is_loopback


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (":1", "127.0.0.1:1", True),
        ("0.0.0.0:1", "10.0.0.1:1", True),
        ("10.0.0.1:1", "10.0.0.2:1", False),
        ("10.0.0.1:1", "10.0.0.1:2", False),
        (":0", ":0", False),
    ],
)
def test_two_sockets_that_cannot_both_be_open_overlap(one, other, overlaps):
    assert addresses.parse(one).overlaps(addresses.parse(other)) is overlaps
    assert addresses.parse(other).overlaps(addresses.parse(one)) is overlaps
