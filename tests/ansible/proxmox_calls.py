"""The request log of the Proxmox double, and what may go wrong at a call.

Each call is noted with its decoded parameters and the status of its answer. A test can act just
before a call (another person's VM appears), or cut the line just after one took effect, so that
the caller never hears of it and nothing answers until the line is mended.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class Call:
    """One request: its path without ``/api2/json``, its parameters, the status of its answer."""

    method: str
    path: str
    values: dict[str, Any]
    status: int = 0

    @property
    def is_write(self) -> bool:
        return self.method not in READS

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(slots=True)
class CallLog:
    """Every call in order; also as lines of JSON in a file, for a test in another process."""

    file: Path | None = None
    calls: list[Call] = field(default_factory=list)

    def note(self, call: Call) -> None:
        self.calls.append(call)
        if self.file is not None:
            with self.file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(call)) + "\n")

    @property
    def writes(self) -> list[Call]:
        return [call for call in self.calls if call.is_write]

    def named(self, name: str) -> Call:
        """The only call of this name, such as ``POST /nodes/pve1/qemu``."""
        (call,) = [call for call in self.calls if call.name == name]
        return call

    def clear(self) -> None:
        self.calls.clear()


@dataclass(slots=True)
class Line:
    """The line between the double and its callers."""

    is_cut: bool = False
    cuts_after: Callable[[Call], bool] | None = None
    before: dict[str, Callable[[], None]] = field(default_factory=dict)
    """By the name of a call: what happens just before it is answered, once."""

    def arrives(self, call: Call) -> None:
        happening = self.before.pop(call.name, None)
        if happening is not None:
            happening()

    def leaves(self, call: Call) -> None:
        if self.cuts_after is not None and self.cuts_after(call):
            self.is_cut = True

    def mend(self) -> None:
        self.is_cut = False
        self.cuts_after = None
