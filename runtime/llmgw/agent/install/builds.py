"""The builds of engines on this machine's disk: where each lies, what proves it, which one is used.

``<root>/<engine>/<version>-<variant>/`` with a marker inside; without the marker a folder is not
trusted. ``<root>/<engine>/current`` points to the build that new shards are started from. The
installer writes, the agent and ``llmgw engine list`` read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from llmgw.agent.install import documents
from llmgw.errors import Invalid
from llmgw.kit import ids

MARKER = ".llmgw-installed"
PARTIAL = ".partial"
CURRENT = "current"
_FOLDER_MODE = 0o755


@dataclass(frozen=True, slots=True)
class Marker:
    """What was installed, and from what: ``program`` is relative to the build's folder."""

    engine: str
    version: str
    variant: str
    program: str
    sha256: Mapping[str, str]
    installed: str


@dataclass(frozen=True, slots=True)
class Installed:
    """One build that carries its marker."""

    folder: Path
    marker: Marker
    is_current: bool

    @property
    def program(self) -> Path:
        """What starts it."""
        return self.folder / self.marker.program


class Builds:
    """Every build below one root folder."""

    def __init__(self, root: Path) -> None:
        """Nothing is read or made yet."""
        self.root = root

    def engines(self) -> tuple[str, ...]:
        """Engines of which something is or was to be installed."""
        try:
            return tuple(sorted(p.name for p in self.root.iterdir() if p.is_dir()))
        except OSError:
            return ()

    def folder(self, engine: str, *, version: str, variant: str) -> Path:
        """Where a build lies, or would."""
        return self.root / engine / f"{version}-{variant}"

    def find(self, engine: str, *, version: str, variant: str) -> Installed | None:
        """One build, if it is there and carries its marker."""
        return self._read(self.folder(engine, version=version, variant=variant))

    def of(self, engine: str) -> tuple[Installed, ...]:
        """All builds of an engine, the newest first."""
        try:
            folders = [p for p in (self.root / engine).iterdir() if not p.is_symlink()]
        except OSError:
            return ()
        found = [built for path in folders if (built := self._read(path)) is not None]
        return tuple(sorted(found, key=lambda b: b.marker.installed, reverse=True))

    def current(self, engine: str) -> Installed | None:
        """The build that new shards are started from."""
        link = self.root / engine / CURRENT
        return self._read(link.resolve()) if link.is_symlink() else None

    def program(self, engine: str) -> Path | None:
        """What starts the build in use; nothing where none was installed."""
        current = self.current(engine)
        return None if current is None else current.program

    def finish(self, folder: Path, marker: Marker) -> None:
        """Write the marker: from here on the folder is trusted."""
        documents.write(folder / MARKER, asdict(marker))

    def begin(self, folder: Path) -> Path:
        """An empty folder beside the final one; what an earlier try left there is gone."""
        partial = folder.with_name(folder.name + PARTIAL)
        _remove(partial)
        try:
            partial.mkdir(mode=_FOLDER_MODE, parents=True)
        except OSError as error:
            raise Invalid(f"{partial} cannot be made: {error.strerror}") from error
        return partial

    def publish(self, partial: Path, folder: Path) -> None:
        """Give a finished build its place; one that was there before goes."""
        _remove(folder)
        partial.rename(folder)

    def activate(self, installed: Installed) -> bool:
        """Have new shards started from this build; whether that is a change."""
        if installed.is_current:
            return False
        link = installed.folder.parent / CURRENT
        fresh = link.with_name(f".{CURRENT}.{ids.token()}")
        fresh.symlink_to(installed.folder.name)
        fresh.replace(link)
        return True

    def prune(self, engine: str, *, keep: int) -> tuple[str, ...]:
        """Remove the oldest above ``keep``, never the current one or one that runs; their names."""
        removed = []
        for built in self.of(engine)[max(1, keep) :]:
            if not built.is_current and not _is_running(built.folder):
                (built.folder / MARKER).unlink(missing_ok=True)
                _remove(built.folder)
                removed.append(built.folder.name)
        return tuple(removed)

    def _read(self, folder: Path) -> Installed | None:
        fields = documents.read(folder / MARKER)
        if fields is None or folder.name.endswith(PARTIAL):
            return None
        try:
            marker = Marker(**fields)
        except TypeError:
            return None
        current = folder.parent / CURRENT
        is_current = current.is_symlink() and current.resolve() == folder.resolve()
        return Installed(folder=folder, marker=marker, is_current=is_current)


def _is_running(folder: Path) -> bool:
    """Whether a process was started from the folder or holds a library of it."""
    inside = f"{folder.resolve()}/".encode()
    return any(inside in _maps(process) for process in Path("/proc").glob("[0-9]*"))


def _maps(process: Path) -> bytes:
    try:
        return (process / "maps").read_bytes() + os.fsencode((process / "exe").readlink())
    except OSError:
        return b""  # it has ended, or is the kernel's own


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Invalid(f"{folder} cannot be removed: {error.strerror}") from error
