"""A machine without root and systemd: what founding does to it is noted, and it can die midway."""

from __future__ import annotations

import time
from pathlib import Path


class Died(BaseException):
    """The process was killed here."""


class FakeMachine:
    """Fits ``serve.founding.machine.Machine``; files are real, below a test's folder."""

    def __init__(self, *, hosts=("cp1", "cp1.lab", "10.0.0.1", "127.0.0.1", "localhost")):
        self.names = hosts
        self.users = {"root"}
        self.owners: dict[Path, tuple[str, str]] = {}
        self.calls: list[str] = []
        self.root = True
        self.systemd = True
        self.taken_ports: set[int] = set()
        self.enabled = False
        self.running = False
        self.starts = True
        self.comes_up = True
        self.log = ("one line", "another line")
        self.waited_s = 0.0
        self.dies_after: int | None = None
        self.reload_needed = False
        self.started = 0.0
        self.hidden: tuple[str, ...] = ("/home",)

    def is_root(self):
        return self.root

    def has_systemd(self):
        return self.systemd

    def has_user(self, name):
        return name in self.users

    def add_user(self, name, *, home):
        self._note(f"useradd {name}")
        self.users.add(name)

    def owner_of(self, path):
        assert path.exists()
        return self.owners.get(path, ("root", "root"))

    def give(self, path, *, owner, group, mode):
        assert {owner, group} <= self.users
        self._note(f"give {path.name} {owner}:{group} {mode:o}")
        self.owners[path] = (owner, group)
        path.chmod(mode)

    def systemctl(self, *words):
        match words:
            case ("is-active", *_):
                return self.running
            case ("is-enabled", *_):
                return self.enabled
        self._note(f"systemctl {' '.join(words)}")
        match words:
            case ("enable", *_):
                self.enabled = True
            case ("daemon-reload",):
                self.reload_needed = False
            case ("start" | "restart", *_):
                self.running, self.started = self.starts, time.time()
                return self.starts
        return True

    def needs_reload(self, unit):
        return self.reload_needed

    def started_at(self, unit):
        return self.started if self.running else 0.0

    def hides(self, path):
        return str(path).startswith(self.hidden)

    def journal(self, unit, *, lines):
        return self.log

    def hosts(self):
        return self.names

    def is_free(self, address):
        return address.port not in self.taken_ports

    def answers(self, url):
        return self.running and self.comes_up

    def pause(self, duration_s):
        self.waited_s += duration_s

    def _note(self, call):
        if self.dies_after is not None and len(self.calls) >= self.dies_after:
            raise Died
        self.calls.append(call)
