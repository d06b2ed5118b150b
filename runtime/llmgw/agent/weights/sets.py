"""Brings a set of files as one: into a folder of another name, renamed when all are there.

``fetching`` calls it for split models and repositories. A folder that is half there under its name
would be taken for a model by the scan, by the control plane and by an engine.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from llmgw.agent.weights import partials, shelf
from llmgw.agent.weights.deliveries import Courier, Delivered
from llmgw.agent.weights.remote_files import RemoteFile, RemoteSet
from llmgw.agent.weights.transfers import CheckRoom, OnBytes
from llmgw.errors import Invalid
from llmgw.kit import offloading

AT_ONCE = 4
"""Files of one set that come at the same time: small ones do not wait behind large ones."""

_INDEX_SUFFIX = ".safetensors.index.json"
_FOLDER_MODE = 0o755


@dataclass(slots=True)
class Delivery:
    """One set on its way into a folder."""

    wanted: RemoteSet
    target: Path
    source: str
    courier: Courier
    on_bytes: OnBytes
    check_room: CheckRoom
    _came: dict[str, int] = field(default_factory=dict)
    _noted: dict[str, Any] = field(default_factory=dict)
    _writing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def bring(self) -> int:
        """Fetch what is missing and give the folder its name; the number of its bytes."""
        folder = partials.beside(self.target, shelf.SET_PARTIAL_SUFFIX)
        await offloading.to_the_end(lambda: self._prepare(folder))
        self._tell()
        gate = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for file in self.wanted.files:
                    group.create_task(self._one(file, folder=folder, gate=gate), name=file.path)
        except ExceptionGroup as errors:
            raise _first(errors) from errors
        await offloading.to_the_end(lambda: self._finish(folder))
        return sum(self._came.values())

    def _prepare(self, folder: Path) -> None:
        """Keep of an earlier try what is whole and still wanted; the rest makes room."""
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        files = shelf.set_note(folder).get("files")
        noted = files if isinstance(files, dict) else {}
        wanted = {file.path: file for file in self.wanted.files}
        for path in [p for p in folder.rglob("*") if not p.is_dir() or p.is_symlink()]:
            name = path.relative_to(folder).as_posix()
            if name == shelf.SET_NOTE or shelf.whole_name(name) in wanted:
                continue
            path.unlink()
        for name, file in wanted.items():
            if (folder / name).is_file():
                self._judge(file, folder / name, noted.get(name))

    def _judge(self, file: RemoteFile, path: Path, noted: object) -> None:
        """A finished file stays if it is noted as what is wanted.

        Else it is read, or its origin is asked; of one that nobody knows anything of, it goes.
        """
        known = noted if isinstance(noted, dict) else {}
        size_bytes, digest = path.stat().st_size, str(file.digest or "")
        if known.get("size_bytes") == size_bytes and digest and known.get("digest") == digest:
            self._came[file.path] = size_bytes
            self._noted[file.path] = known
        elif digest or known.get("validator"):
            partials.reopen(path, validator=str(known.get("validator", "")), digest=digest)
        else:
            path.unlink()

    async def _one(self, file: RemoteFile, *, folder: Path, gate: asyncio.Semaphore) -> None:
        if file.path in self._noted:
            return
        async with gate:
            delivered = await self.courier.deliver(
                file,
                folder / file.path,
                on_bytes=lambda done, _: self._heard(file, done),
                check_room=self._check_room,
            )
        self._heard(file, delivered.size_bytes)
        self._noted[file.path] = _note(delivered)
        async with self._writing:
            await offloading.to_the_end(lambda: self._write_note(folder))

    def _heard(self, file: RemoteFile, done_bytes: int) -> None:
        self._came[file.path] = done_bytes
        self._tell()

    def _tell(self) -> None:
        self.on_bytes(sum(self._came.values()), self.wanted.total_bytes)

    def _check_room(self, missing_bytes: int) -> None:
        """The whole set must fit, where its size is known."""
        total_bytes = self.wanted.total_bytes
        came_bytes = sum(list(self._came.values()))
        self.check_room(missing_bytes if total_bytes is None else total_bytes - came_bytes)

    def _write_note(self, folder: Path) -> None:
        note = {
            "source": self.source,
            "revision": self.wanted.revision,
            "entry": self.wanted.entry,
            "files": dict(self._noted),
        }
        written = folder / f"{shelf.SET_NOTE}.new"
        written.write_text(json.dumps(note, indent=1), encoding="utf-8")
        written.replace(folder / shelf.SET_NOTE)

    def _finish(self, folder: Path) -> None:
        _check_index(folder, self.wanted)
        self._write_note(folder)
        partials.sync_folder(folder)
        self.courier.hold.check()
        folder.rename(self.target)
        partials.sync_folder(self.target.parent)


def _note(delivered: Delivered) -> Mapping[str, object]:
    return {
        "size_bytes": delivered.size_bytes,
        "digest": str(delivered.digest or ""),
        "validator": delivered.validator,
    }


def _check_index(folder: Path, wanted: RemoteSet) -> None:
    """A checkpoint's index names its parts; one that is not there would be found by the engine."""
    names = {file.path for file in wanted.files}
    for index in (name for name in names if name.endswith(_INDEX_SUFFIX)):
        try:
            named = set(
                json.loads((folder / index).read_text(encoding="utf-8"))["weight_map"].values()
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise Invalid(f"{index} of the repository is no index of weights") from error
        above = index.rpartition("/")[0]
        missing = sorted(n for n in named if (f"{above}/{n}" if above else n) not in names)
        if missing:
            raise Invalid(f"{index} names {missing[0]}, which the repository does not have")


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """One of several failures at once: the others were stopped because of it, or are the same."""
    error: Exception = errors
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
