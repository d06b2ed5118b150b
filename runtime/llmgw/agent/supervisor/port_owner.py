"""Whose a TCP port is: free for an engine to come, held by a stranger, or our own engine's.

A good answer of another process on the same port must not count as ours.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Iterable

from llmgw.agent.supervisor.interviewing import HttpCheck
from llmgw.domain.replicas import PORT_IN_USE
from llmgw.errors import AlreadyHeld, Invalid
from llmgw.kit import proctable
from llmgw.kit.addresses import Address


def owner_problem(check: HttpCheck, *, pids: Iterable[int]) -> str:
    """Why the port is not our engine's, or nothing when its processes hold the listener."""
    found = _relevant(proctable.listeners(port=check.port), address=check.address)
    if not found:
        return f"nothing listens on {Address(check.address, check.port)}"
    ours: set[int] = set().union(*(proctable.socket_inodes(pid) for pid in pids))
    strangers = [one for one in found if one.inode not in ours]
    return _held(check, strangers) if strangers else ""


def check_port_free(check: HttpCheck) -> None:
    """Raise ``AlreadyHeld``, naming the holder, when the engine could not listen on its port."""
    family = socket.AF_INET6 if ":" in check.address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((check.address, check.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                found = _relevant(proctable.listeners(port=check.port), address=check.address)
                raise AlreadyHeld(_held(check, found)) from error
            raise Invalid(
                f"engines cannot listen on {Address(check.address, check.port)} "
                f"({error.strerror}); set mgmt_addr to an address of this machine"
            ) from error


def blamed(check: HttpCheck, error: str) -> str:
    """How an engine ended that was still loading, with whoever holds the port that it wanted."""
    with contextlib.suppress(Invalid):
        try:
            check_port_free(check)
        except AlreadyHeld as held:
            return f"{held.message}; {error}"
    return error


def _held(check: HttpCheck, strangers: Iterable[proctable.Listener]) -> str:
    holders = sorted({_holder(one.inode) for one in strangers})
    named = ", ".join(holders) or "another process"
    return f"{PORT_IN_USE}: {Address(check.address, check.port)} is held by {named}"


def _holder(inode: int) -> str:
    for entry in proctable.running():
        if inode in proctable.socket_inodes(entry.pid):
            return f"process {entry.pid} ({proctable.command_name(entry.pid)})"
    return "another process"


def _relevant(found: list[proctable.Listener], *, address: str) -> list[proctable.Listener]:
    """The sockets that a connection to this address may reach: the exact ones, else wildcards."""
    try:
        wanted = str(ipaddress.ip_address(address))
    except ValueError:
        return found
    exact = [one for one in found if one.address == wanted]
    return exact or [one for one in found if one.is_wildcard]
