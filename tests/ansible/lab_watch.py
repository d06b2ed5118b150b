"""Looks on while playbooks run: what process lists show, and who could read a private key."""

from __future__ import annotations

import contextlib
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import lab
from lab import Host

EVERY_S = 0.05
KEY_WORDS = ("key.pem", ".key")


@dataclass
class Watch:
    """All that was seen."""

    commands: set[str] = field(default_factory=set)
    """Every command line on this machine, those of the hosts among them."""

    open_keys: set[str] = field(default_factory=set)
    """Files with a private key that others than their owner could read at some moment."""

    _roots: dict[str, Path] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self, hosts: list[Host]) -> None:
        """Look until told to stop."""
        while not self._stop.wait(EVERY_S):
            self.commands.update(_command_lines())
            for host in hosts:
                with contextlib.suppress(OSError, lab.LabFailed, ValueError):
                    self.open_keys.update(_open_keys(host.name, self._root(host)))

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()

    def _root(self, host: Host) -> Path:
        """The host's files, as this machine sees them."""
        if host.name not in self._roots:
            pid = lab.podman("inspect", "--format", "{{.State.Pid}}", host.container).strip()
            if pid == "0":
                raise ValueError("it is off")
            self._roots[host.name] = Path("/proc", pid, "root")
        return self._roots[host.name]


@contextlib.contextmanager
def watching(*hosts: Host) -> Iterator[Watch]:
    """Somebody looks while the block runs."""
    watch = Watch()
    thread = threading.Thread(target=watch.run, args=(list(hosts),), name="watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.stop()
        thread.join()


def _command_lines() -> Iterator[str]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                raw = (process / "cmdline").read_bytes()
                yield raw.replace(b"\0", b" ").decode(errors="replace")


def _open_keys(name: str, root: Path) -> Iterator[str]:
    for file in (root / "etc" / "llmgw").rglob("*"):
        if file.name.endswith(KEY_WORDS) or file.name.startswith("."):
            with contextlib.suppress(FileNotFoundError):
                found = file.stat()
                is_open = bool(found.st_mode & (stat.S_IRGRP | stat.S_IROTH))
                if stat.S_ISREG(found.st_mode) and is_open and b"PRIVATE KEY" in file.read_bytes():
                    yield f"{name}:{file.relative_to(root)}"
