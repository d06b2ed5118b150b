"""The last passes of a journal that did something, read from its end without what they saw.

For people who ask what happened: nothing is decided again, so no snapshot is put together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from llmgw.control.recorder import journal, replaying
from llmgw.domain.decided import DecidedAction, DecidedPass
from llmgw.errors import Unavailable


def last(state_dir: Path, *, limit: int, since: float | None = None) -> tuple[DecidedPass, ...]:
    """At most so many passes, the newest first, none that began before ``since``.

    ``Unavailable`` when a file cannot be read.
    """
    found: list[DecidedPass] = []
    for file in reversed(journal.files(state_dir / journal.FOLDER)):
        for told in _backwards(file):
            if since is not None and told["at"] < since:
                return tuple(found)
            if told["decided"]["actions"]:
                found.append(_pass(told))
            if len(found) == limit:
                return tuple(found)
    return tuple(found)


def _backwards(file: Path) -> Iterator[Any]:
    """What each line tells, the last one first; those that are damaged or no pass are left out."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return  # the oldest file has made room meanwhile
    except OSError as error:
        raise Unavailable(f"the journal {file} cannot be read: {error.strerror}") from error
    for line in reversed(lines):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and {"pass", "at", "decided"} <= told.keys():
            yield told


def _pass(told: Any) -> DecidedPass:
    return DecidedPass(
        number=told["pass"],
        at=told["at"],
        actions=tuple(
            DecidedAction(
                kind=str(action["kind"]),
                subject=replaying.subject(action),
                reason=str(action.get("reason", "")),
            )
            for action in told["decided"]["actions"]
        ),
        refusals=told["decided"]["refusals"],
    )
