"""The machine that a control plane is founded on: users, owners, services, addresses.

Everything that needs root or systemd goes through it; founding itself only decides.
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import httpx

from llmgw.agent.discovery import netlink
from llmgw.errors import DeadlinePassed, Internal
from llmgw.kit.addresses import Address

_COMMAND_S = 60.0
_ANSWER_S = 2.0
_HIDDEN = tuple(map(Path, ("/home", "/root", "/run/user", "/tmp", "/var/tmp")))  # noqa: S108


class Machine(Protocol):
    """What founding asks of a machine."""

    def is_root(self) -> bool:
        """Whether this process may change the system."""
        ...

    def has_systemd(self) -> bool:
        """Whether systemd runs here."""
        ...

    def has_user(self, name: str) -> bool:
        """Whether there is such a user."""
        ...

    def add_user(self, name: str, *, home: Path) -> None:
        """Make a system user who cannot log in."""
        ...

    def owner_of(self, path: Path) -> tuple[str, str]:
        """Who owns a file or folder: the user and the group, by name."""
        ...

    def give(self, path: Path, *, owner: str, group: str, mode: int) -> None:
        """Set who owns a file or folder, and what others may do with it."""
        ...

    def systemctl(self, *words: str) -> bool:
        """Run ``systemctl``; whether it says yes."""
        ...

    def needs_reload(self, unit: str) -> bool:
        """Whether systemd has not read the unit as it lies there."""
        ...

    def started_at(self, unit: str) -> float:
        """When the unit's process began, in seconds since 1970; 0 when it does not run."""
        ...

    def hides(self, path: Path) -> bool:
        """Whether ``ProtectHome`` or ``PrivateTmp`` keeps a service from seeing it."""
        ...

    def journal(self, unit: str, *, lines: int) -> Sequence[str]:
        """The end of a unit's log."""
        ...

    def hosts(self) -> Sequence[str]:
        """Every name and address by which this machine may be dialled."""
        ...

    def is_free(self, address: Address) -> bool:
        """Whether a server could listen there."""
        ...

    def answers(self, url: str) -> bool:
        """Whether 200 comes back."""
        ...

    def pause(self, duration_s: float) -> None:
        """Let time pass."""
        ...


class ThisMachine:
    """The machine that this process runs on; fits ``Machine``."""

    def is_root(self) -> bool:
        """See ``Machine``."""
        return os.geteuid() == 0

    def has_systemd(self) -> bool:
        """See ``Machine``; sd_booted(3)."""
        return Path("/run/systemd/system").is_dir() and shutil.which("systemctl") is not None

    def has_user(self, name: str) -> bool:
        """See ``Machine``."""
        try:
            pwd.getpwnam(name)
        except KeyError:
            return False
        return True

    def add_user(self, name: str, *, home: Path) -> None:
        """See ``Machine``."""
        options = ["--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"]
        done = _run(["useradd", *options, "--home-dir", str(home), name])
        if done.returncode != 0:
            raise Internal(f"useradd {name} failed: {done.stdout.strip()[-300:]}")

    def owner_of(self, path: Path) -> tuple[str, str]:
        """See ``Machine``; a number where there is no name."""
        held = path.stat()
        try:
            return pwd.getpwuid(held.st_uid).pw_name, grp.getgrgid(held.st_gid).gr_name
        except KeyError:
            return str(held.st_uid), str(held.st_gid)

    def give(self, path: Path, *, owner: str, group: str, mode: int) -> None:
        """See ``Machine``."""
        shutil.chown(path, user=owner, group=group)
        path.chmod(mode)

    def systemctl(self, *words: str) -> bool:
        """See ``Machine``."""
        return _run(["systemctl", *words]).returncode == 0

    def needs_reload(self, unit: str) -> bool:
        """See ``Machine``."""
        return _property(unit, "NeedDaemonReload") == "yes"

    def started_at(self, unit: str) -> float:
        """See ``Machine``."""
        since_boot = _property(unit, "ExecMainStartTimestampMonotonic")
        if not since_boot.isdecimal() or since_boot == "0":
            return 0.0
        return time.time() - (time.monotonic() - int(since_boot) / 1e6)

    def hides(self, path: Path) -> bool:
        """See ``Machine``; systemd.exec(5)."""
        return any(path.resolve().is_relative_to(folder) for folder in _HIDDEN)

    def journal(self, unit: str, *, lines: int) -> Sequence[str]:
        """See ``Machine``."""
        done = _run(["journalctl", "--unit", unit, "--lines", str(lines), "--output", "cat"])
        return done.stdout.splitlines()

    def hosts(self) -> Sequence[str]:
        """See ``Machine``; what only this machine or its own wire could mean is left out."""
        held = {
            str(address)
            for address, _ in netlink.held_addresses()
            if not (address.is_loopback or address.is_link_local)
        }
        names = (socket.gethostname(), socket.getfqdn())
        return [*dict.fromkeys(names), *sorted(held), "127.0.0.1", "localhost"]

    def is_free(self, address: Address) -> bool:
        """See ``Machine``."""
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address.host, address.port))
            except OSError:
                return False
        return True

    def answers(self, url: str) -> bool:
        """See ``Machine``."""
        try:
            return httpx.get(url, timeout=_ANSWER_S, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def pause(self, duration_s: float) -> None:
        """See ``Machine``."""
        time.sleep(duration_s)


def _property(unit: str, name: str) -> str:
    return _run(["systemctl", "show", "--value", "--property", name, unit]).stdout.strip()


def _run(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_COMMAND_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise DeadlinePassed(
            f"{' '.join(words[:2])} did not end within {_COMMAND_S:g} s"
        ) from error
    except OSError as error:
        raise Internal(f"{words[0]} cannot be started: {error.strerror}") from error
