"""What is read from /proc, on this very process and its sockets."""

from __future__ import annotations

import os
import socket

import pytest

from llmgw.agent.supervisor import port_owner, wording
from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.domain.replicas import PORT_IN_USE
from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import proctable


def check(port, address="127.0.0.1"):
    return HttpCheck(address=address, port=port, health_path="/health", model="m")


def test_our_own_process_is_found_with_its_group_and_session():
    found = proctable.entry(os.getpid())
    assert found is not None
    assert (found.group, found.session) == (os.getpgrp(), os.getsid(0))
    assert found.is_running
    assert found.start_ticks > 0
    assert os.getpid() in {one.pid for one in proctable.running()}


def test_a_pid_that_nobody_has_is_nothing():
    assert proctable.entry(2**22 + 1) is None
    assert proctable.variable(2**22 + 1, name="A") is None


@pytest.mark.parametrize(
    ("line", "address"),
    [
        pytest.param("0100007F:4E20 00000000:0000 0A", "127.0.0.1", id="v4"),
        pytest.param("00000000:4E20 00000000:0000 0A", "0.0.0.0", id="v4-any"),
        pytest.param(f"{'0' * 24}01000000:4E20 {'0' * 32}:0000 0A", "::1", id="v6"),
        pytest.param(
            f"0000000000000000FFFF00000100007F:4E20 {'0' * 32}:0000 0A", "127.0.0.1", id="mapped"
        ),
    ],
)
def test_addresses_of_listeners_are_read_in_host_order(line, address):
    rest = "00000000:00000000 00:00000000 00000000 0 0 4711 1"
    found = proctable._listener(f"0: {line} {rest}", port=20000)
    assert (found.address, found.inode) == (address, 4711)
    assert proctable._listener(f"0: {line} {rest}", port=20001) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2"])
def test_a_listener_is_ours_or_a_strangers(address):
    with socket.create_server((address, 0)) as server:
        port = server.getsockname()[1]
        assert port_owner.owner_problem(check(port, address), pids=[os.getpid()]) == ""
        problem = port_owner.owner_problem(check(port, address), pids=[1])
        assert problem.startswith(PORT_IN_USE)
        assert f"process {os.getpid()}" in problem
    assert "nothing listens" in port_owner.owner_problem(check(port, address), pids=[os.getpid()])


def test_the_same_port_on_another_address_is_not_in_the_way():
    with socket.create_server(("127.0.0.2", 0)) as server:
        port = server.getsockname()[1]
        port_owner.check_port_free(check(port))
        assert "nothing listens" in port_owner.owner_problem(check(port), pids=[os.getpid()])
        with pytest.raises(AlreadyHeld, match=f"process {os.getpid()}"):
            port_owner.check_port_free(check(port, "127.0.0.2"))


def test_a_wildcard_listener_is_in_the_way_of_every_address():
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        assert port_owner.owner_problem(check(port), pids=[os.getpid()]) == ""
        with pytest.raises(AlreadyHeld):
            port_owner.check_port_free(check(port))


def test_an_address_of_another_machine_is_refused_with_advice():
    with pytest.raises(Invalid, match="mgmt_addr"):
        port_owner.check_port_free(check(20000, "192.0.2.1"))


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(None, "unknown", id="adopted"),
        pytest.param(0, "unexpectedly with exit code 0", id="zero"),
        pytest.param(42, "exit code 42", id="code"),
        pytest.param(-9, "SIGKILL; perhaps", id="killed"),
        pytest.param(-11, "SIGSEGV", id="crash"),
        pytest.param(-200, "signal 200", id="unnamed"),
    ],
)
def test_an_end_is_told_in_a_sentence(code, words):
    assert words in wording.exit_sentence("engine", code)
