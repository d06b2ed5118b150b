"""Why a port cannot be listened on is said in one way."""

from __future__ import annotations

import socket

import pytest

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import binding
from llmgw.kit.addresses import Address


def test_a_port_of_somebody_else_is_held_and_a_free_one_is_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        at = Address("127.0.0.1", server.getsockname()[1])
        with pytest.raises(AlreadyHeld, match=f"cannot listen on {at}: another process holds"):
            binding.check(at)
        binding.check(Address("127.0.0.2", at.port))
    assert binding.check(at) is None


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("192.0.2.1", "Cannot assign requested address"),
        ("no.such.host.invalid", "Name or service not known|Temporary failure|No address"),
    ],
)
def test_an_address_that_is_not_ours_is_refused_with_the_systems_words(host, reason):
    with pytest.raises(Invalid, match=rf"cannot listen on {host}:9: ({reason})"):
        binding.check(Address(host, 9))
