"""Listening sockets: shared by our workers, with nobody else."""

from __future__ import annotations

import os
import socket

import pytest

from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit.addresses import Address
from llmgw.serve import listeners

LOOPBACK = Address("127.0.0.1", 0)


@pytest.fixture
def opened():
    """Sockets that are closed after the test."""
    sockets = []
    yield sockets.append
    for sock in sockets:
        sock.close()


def test_sockets_of_one_address_share_its_port(opened):
    sockets = listeners.bind_shared(LOOPBACK, key="listen", count=3)
    for sock in sockets:
        opened(sock)
    assert len({listeners.port_of(sock) for sock in sockets}) == 1
    assert all(not sock.get_inheritable() for sock in sockets)


def test_a_stranger_who_would_share_the_port_is_found_and_named(opened):
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        address = Address("127.0.0.1", listeners.port_of(stranger))
        with pytest.raises(AlreadyHeld, match=rf"listen: {address} .*process {os.getpid()}"):
            listeners.bind_shared(address, key="listen", count=2)


def test_a_stranger_on_all_addresses_is_found_too():
    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        stranger.bind(("0.0.0.0", 0))
        stranger.listen()
        address = Address("127.0.0.1", listeners.port_of(stranger))
        with pytest.raises(AlreadyHeld):
            listeners.bind_shared(address, key="listen", count=1)


def test_kept_sockets_come_first_and_only_the_rest_is_bound(opened):
    [kept] = listeners.bind_shared(LOOPBACK, key="listen", count=1)
    sockets = listeners.bind_shared(LOOPBACK, key="listen", count=2, kept=[kept])
    for sock in sockets:
        opened(sock)
    assert sockets[0] is kept
    assert listeners.port_of(sockets[1]) == listeners.port_of(kept)


def test_a_bare_port_is_every_address_of_either_family(opened):
    sock = listeners.bind(Address("", 0), key="listen")
    opened(sock)
    port = listeners.port_of(sock)
    socket.create_connection(("127.0.0.1", port), timeout=5).close()
    if sock.family is socket.AF_INET6:
        socket.create_connection(("::1", port), timeout=5).close()
    assert listeners.shown(sock) == f"http://127.0.0.1:{port}"


@pytest.mark.parametrize(
    ("address", "is_there"),
    [
        pytest.param(Address("127.0.0.1", 0), True, id="any port"),
        pytest.param(Address("127.0.0.2", 0), False, id="another address"),
        pytest.param(Address("127.0.0.1", 1), False, id="another port"),
        pytest.param(Address("", 0), False, id="all addresses"),
    ],
)
def test_a_socket_that_was_found_is_known_to_be_where_it_should(opened, address, is_there):
    sock = listeners.bind(LOOPBACK, key="listen")
    opened(sock)
    assert listeners.is_at(sock, address) is is_there


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_is_not_this_machines_is_a_mistake_of_the_settings(host):
    with pytest.raises(Invalid, match="listen"):
        listeners.bind(Address(host, 0), key="listen")
