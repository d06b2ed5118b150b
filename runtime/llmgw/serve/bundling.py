"""Makes the support bundle: what a control plane knows, and its last passes, with nothing secret.

The journal in it is redacted and replays the same. What takes too long is left out, the oldest
passes first, and the bundle says so.
"""

from __future__ import annotations

import asyncio
import io
import json
import platform
import sys
import tarfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llmgw import __version__
from llmgw.config.settings import ServerSettings
from llmgw.control.recorder import journal, recordings, redacting
from llmgw.control.recorder.recordings import Recording
from llmgw.control.recorder.redacting import Redactor
from llmgw.errors import LlmgwError
from llmgw.kit import trees
from llmgw.kit.clock import Clock

_JOURNAL_BUDGET_S = 20.0
"""After this long no older pass is redacted."""

_MOST_NODES = 50_000
"""Nodes of all passes together that are held in memory at a time."""

Views = Callable[[], Mapping[str, object]]
"""What is known at this moment, by the name of the file that it becomes."""


@dataclass(frozen=True, slots=True)
class SupportBundle:
    """Fits ``api.ports.Bundles``."""

    settings: ServerSettings
    views: Views
    clock: Clock

    async def support_bundle(self, *, passes: int) -> bytes:
        """See ``api.ports.Bundles``."""
        at, known = self.clock.wall(), self.views()
        return await asyncio.to_thread(self._made, known, at=at, passes=passes)

    def _made(self, known: Mapping[str, object], *, at: float, passes: int) -> bytes:
        redactor = Redactor()
        told = {"settings": trees.encode(self.settings)}
        told |= {name: trees.encode(view) for name, view in known.items()}
        found, seen, missing = _last(Path(self.settings.state_dir), passes=passes)
        for one in (*told.values(), *({"seen": r.snapshot, "did": r.decided} for r in found)):
            redactor.learn(one)
        copies = list(_redacted(found, redactor))
        told["about"] = {
            "llmgw": __version__,
            "python": sys.version,
            "platform": platform.platform(),
            "at": at,
            "passes": len(copies),
            "passes_left_out": min(passes, seen) - len(copies),
            "journal": missing,
        }
        files = {f"{name}.json": _document(redactor.redacted(t)) for name, t in told.items()}
        files[journal.IN_BUNDLE] = "".join(recordings.lines(copies))
        return _archive(files, at=at)


def _last(state_dir: Path, *, passes: int) -> tuple[deque[Recording], int, str]:
    """The last passes that were recorded, how many there are, and why not all could be read."""
    found: deque[Recording] = deque()
    seen = 0
    try:
        for one in journal.read(state_dir):
            seen += 1
            found.append(one)
            nodes = len(one.snapshot["cluster"]["nodes"])
            while len(found) > min(passes, 1 + _MOST_NODES // (1 + nodes)):
                found.popleft()
    except LlmgwError as error:
        return found, seen, error.message
    return found, seen, ""


def _redacted(found: deque[Recording], redactor: Redactor) -> Iterator[Recording]:
    """The passes without what is secret, the oldest first; the newest are done first."""
    give_up_at = time.monotonic() + _JOURNAL_BUDGET_S
    done: deque[Recording] = deque()
    for one in reversed(found):
        if time.monotonic() > give_up_at:
            break
        done.appendleft(redacting.recording(one, redactor))
    yield from done


def _document(tree: Any) -> str:
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


def _archive(files: Mapping[str, str], *, at: float) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"llmgw-support/{name}")
            member.size, member.mtime, member.mode = len(content), int(at), 0o600
            archive.addfile(member, io.BytesIO(content))
    return made.getvalue()
