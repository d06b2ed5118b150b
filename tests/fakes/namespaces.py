"""Machines of their own network on this one: namespaces that a bridge joins, for root only."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

INTERFACE = "eth0"
"""What each machine calls its way to the others."""

_serials = itertools.count()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


@dataclass(frozen=True)
class Machine:
    """One namespace; ``within`` begins the words of a command that runs there."""

    name: str
    address: str

    @property
    def within(self) -> tuple[str, ...]:
        return ("ip", "netns", "exec", self.name)

    def lose(self, address: str) -> None:
        """Take away the way to another machine, and to that alone."""
        _ip("-n", self.name, "route", "add", "unreachable", f"{address}/32")

    def find(self, address: str) -> None:
        """Give the way back."""
        _ip("-n", self.name, "route", "del", "unreachable", f"{address}/32")


@dataclass(frozen=True)
class Switch:
    """This machine's end, and the machines behind it."""

    address: str
    machines: tuple[Machine, ...]


@contextlib.contextmanager
def joined(count: int) -> Iterator[Switch]:
    """So many machines on one network; skips the test where the kernel does not allow them."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and iproute2")
    number = f"{os.getpid()}{next(_serials)}"[-7:]
    prefix = f"10.{200 + int(number) % 50}.{int(number) // 50 % 250}"
    bridge = f"lgbr{number}"
    machines = [Machine(f"lg{number}n{i}", f"{prefix}.{i + 2}") for i in range(count)]
    try:
        try:
            _ip("link", "add", bridge, "type", "bridge")
            _ip("addr", "add", f"{prefix}.1/24", "dev", bridge)
            _ip("link", "set", bridge, "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no bridge can be made here: {error.stderr.strip()}")
        for place, machine in enumerate(machines):
            _plug_in(machine, bridge=bridge, cable=f"lgv{number}{place}")
        yield Switch(f"{prefix}.1", tuple(machines))
    finally:
        for machine in machines:
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "del", machine.name)
        with contextlib.suppress(subprocess.CalledProcessError):
            _ip("link", "del", bridge)


def _plug_in(machine: Machine, *, bridge: str, cable: str) -> None:
    _ip("netns", "add", machine.name)
    _ip("link", "add", cable, "type", "veth", "peer", "name", INTERFACE, "netns", machine.name)
    _ip("link", "set", cable, "master", bridge, "up")
    _ip("-n", machine.name, "link", "set", "lo", "up")
    _ip("-n", machine.name, "addr", "add", f"{machine.address}/24", "dev", INTERFACE)
    _ip("-n", machine.name, "link", "set", INTERFACE, "up")
