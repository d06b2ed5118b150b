"""The list of what an authority has signed: one line of JSON a certificate, in its own folder.

``authority`` writes and asks it. A line that cannot be read is told and passed over: the list is
memory, and the certificates themselves are the truth.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from llmgw.errors import Invalid
from llmgw.kit import logs

FILE = "issued.jsonl"

_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One certificate; ``address`` is the machine that it was asked for, where that was said."""

    serial: str
    name: str
    usage: str
    hosts: tuple[str, ...]
    issued_at: float
    not_after_at: float
    fingerprint: str
    address: str = ""


def add(directory: Path, entry: Entry) -> None:
    """Write one more line, readable to the authority's owner only."""
    path = directory / FILE
    line = json.dumps(asdict(entry))
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(handle, "ab") as file:
            # A newline first, too: a line that was torn by a crash must not take this one with it.
            file.write(f"\n{line}\n".encode())
    except OSError as error:
        raise Invalid(f"{path}: cannot be written: {error.strerror}") from error


def read(directory: Path) -> tuple[Entry, ...]:
    """Every line, the oldest first."""
    path = directory / FILE
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise Invalid(f"{path}: cannot be read: {error.strerror}") from error
    return tuple(_entries(text, path))


def live_elsewhere(
    directory: Path, *, name: str, usage: str, address: str, now: float
) -> Entry | None:
    """The newest certificate of that name that another address still holds, if there is one."""
    for entry in reversed(read(directory)):
        is_same = entry.name == name and entry.usage == usage
        if is_same and entry.not_after_at > now and entry.address:
            return entry if entry.address != address else None
    return None


def _entries(text: str, path: Path) -> Iterator[Entry]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line:
            continue
        try:
            fields = json.loads(line)
            yield Entry(**{**fields, "hosts": tuple(fields["hosts"])})
        except (ValueError, TypeError, KeyError):
            _log.warning("issuance_unreadable", path=str(path), line=number)
