"""Where releases of engines come from: a folder, a mirror, or the public release site.

A release is a set of files, each with a digest that its source publishes; a file without one is
never installed. Sources are asked in the order given, and the first that has the release serves it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from llmgw.errors import Denied, Exhausted, Invalid, Unavailable, Unknown

SUMS = "SHA256SUMS"
DIGEST = re.compile(r"[0-9a-f]{64}")
_SUM_LINE = re.compile(r"([0-9a-fA-F]{64})[ \t]+[*]?(?:\./)?(\S.*)")

OnBytes = Callable[[int, int | None], None]
"""Called with the bytes so far and the total, where the source says it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which release of what."""

    engine: str
    version: str
    repo: str = ""
    """Its place on the public release site, where it has one."""


class Source(Protocol):
    """One place that may have releases."""

    @property
    def name(self) -> str:
        """How people call it."""
        ...

    def digests(self, wanted: Wanted) -> Mapping[str, str]:
        """The SHA-256 of each file; ``Unknown`` without the release, ``Unavailable`` when away."""
        ...

    def fetch(self, wanted: Wanted, asset: str, *, target: Path, on_bytes: OnBytes) -> str:
        """Write one file to ``target``; the SHA-256 of what was written."""
        ...


@dataclass(frozen=True, slots=True)
class Release:
    """One release at the source that has it."""

    wanted: Wanted
    source: Source
    digests: Mapping[str, str]

    def fetch(self, asset: str, *, target: Path, on_bytes: OnBytes) -> str:
        """One file, compared with its published digest, which is returned."""
        expected = self.digests.get(asset)
        if expected is None:
            raise Denied(
                f"{self.source.name} has no {asset}, or no checksum for it; it is not installed"
            )
        found = self.source.fetch(self.wanted, asset, target=target, on_bytes=on_bytes)
        if found != expected:
            raise Denied(
                f"the checksum of {asset} from {self.source.name} is {found[:12]} and should be "
                f"{expected[:12]}; it is not installed"
            )
        return found


def find(
    sources: Sequence[Source], wanted: Wanted, *, pinned: Mapping[str, str] | None = None
) -> Release:
    """The release at the first source that has it; all reasons when none does.

    ``pinned`` are digests that somebody wrote down before; they stand above what a source says.
    """
    reasons: list[str] = []
    is_passing = False
    for source in sources:
        try:
            digests = source.digests(wanted)
        except (Unknown, Unavailable, Exhausted) as error:
            reasons.append(f"{source.name}: {error.message}")
            is_passing = is_passing or not isinstance(error, Unknown)
        else:
            return Release(wanted=wanted, source=source, digests={**digests, **(pinned or {})})
    what = f"{wanted.engine} {wanted.version}"
    message = f"no source has {what}: {'; '.join(reasons) or 'none was given'}"
    raise Unavailable(message) if is_passing else Unknown(message)


def read_sums(text: str) -> dict[str, str]:
    """The digests of a ``SHA256SUMS`` file by file name; names with folders are refused."""
    digests: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _SUM_LINE.fullmatch(line.strip())
        if match is None or "/" in match[2] or match[2] in {".", ".."}:
            raise Invalid(f"{SUMS} holds a line that is no checksum of a file: {line[:80]!r}")
        digests[match[2]] = match[1].lower()
    return digests
