"""Unpacks an archive of a release into a folder, and refuses what no honest archive holds.

Nothing may be written outside the folder: names, links and chains of links are judged by where they
really lead. A refusal ends the whole installation; the caller throws the folder away.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llmgw.errors import Denied, Invalid

_COPY_BYTES = 1024 * 1024
_FOLDER_MODE = 0o755
_FILE_MODE_MASK = 0o755


@dataclass(frozen=True, slots=True)
class Caps:
    """The most that archives of one build may unpack to."""

    size_bytes: int = 16 * 1024**3
    files: int = 20_000


class Unpacked:
    """One folder and all that has been unpacked into it so far."""

    def __init__(self, folder: Path, *, caps: Caps | None = None) -> None:
        """``folder`` exists and is empty; the caps hold for all archives together."""
        self._root = folder.resolve()
        self._caps = caps or Caps()
        self._size_bytes = 0
        self._files = 0

    def add(self, archive: Path) -> None:
        """Unpack one ``.tar.gz``; ``Denied`` for what may not be in it, ``Invalid`` if torn."""
        try:
            with tarfile.open(archive, "r:gz") as tar:
                for member in tar:
                    self._take(tar, member, archive.name)
        except (tarfile.TarError, EOFError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk's fault and not the archive's
            raise Invalid(f"{archive.name} is no whole .tar.gz archive: {error}") from error
        self._check_links(archive.name)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo, archive: str) -> None:
        self._count(member, archive)
        target = self._target(member, archive)
        if target == self._root and member.isdir():
            return
        if member.isdir():
            self._make_folder(target)
            return
        self._make_folder(target.parent)
        if target.is_symlink() or target.is_file():
            target.unlink()
        if member.issym():
            self._link(target, member, archive)
        elif member.isreg():
            self._write(target, member, tar)
        else:
            raise Denied(
                f"{archive} holds {member.name}, a {_kind(member)}; no engine's archive needs one"
            )

    def _count(self, member: tarfile.TarInfo, archive: str) -> None:
        self._files += 1
        self._size_bytes += member.size if member.isreg() else 0
        if self._files > self._caps.files or self._size_bytes > self._caps.size_bytes:
            raise Denied(
                f"{archive} unpacks to more than {self._caps.files} files or "
                f"{self._caps.size_bytes // 1024**2} MB; that is no engine"
            )

    def _target(self, member: tarfile.TarInfo, archive: str) -> Path:
        """Where a member goes, by what its folder really is."""
        if member.name.startswith("/"):
            raise Denied(f"{archive} holds {member.name}, an absolute name")
        joined = Path(os.path.normpath(self._root / member.name))
        parent = Path(os.path.realpath(joined.parent))
        if joined != self._root and not parent.is_relative_to(self._root):
            raise Denied(f"{archive} holds {member.name}, which leads out of its folder")
        return parent / joined.name if joined != self._root else joined

    def _link(self, target: Path, member: tarfile.TarInfo, archive: str) -> None:
        leads_to = Path(os.path.realpath(target.parent / member.linkname))
        if member.linkname.startswith("/") or not leads_to.is_relative_to(self._root):
            raise Denied(
                f"{archive} holds {member.name}, a link to {member.linkname} outside its folder"
            )
        target.symlink_to(member.linkname)

    def _write(self, target: Path, member: tarfile.TarInfo, tar: tarfile.TarFile) -> None:
        source = tar.extractfile(member)
        if source is None:
            raise Invalid(f"{member.name} cannot be read from its archive")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with source, os.fdopen(os.open(target, flags, 0o600), "wb") as file:
            _copy(source, file)
        target.chmod(member.mode & _FILE_MODE_MASK)

    def _make_folder(self, folder: Path) -> None:
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)

    def _check_links(self, archive: str) -> None:
        """Later links may have changed where earlier ones lead."""
        for folder, folders, files in os.walk(self._root):
            for name in (*folders, *files):
                path = Path(folder, name)
                if path.is_symlink() and not path.resolve().is_relative_to(self._root):
                    raise Denied(
                        f"{archive} holds links that together lead out of its folder: {name}"
                    )


def _copy(source: IO[bytes], file: IO[bytes]) -> None:
    shutil.copyfileobj(source, file, _COPY_BYTES)


def _kind(member: tarfile.TarInfo) -> str:
    if member.islnk():
        return "hard link"
    if member.isdev():
        return "device or FIFO"
    return "thing of an unknown kind"
