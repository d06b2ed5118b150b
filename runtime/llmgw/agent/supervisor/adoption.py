"""State files: what an agent writes down about a shard, so that the next agent can find its engine.

Written before the first process starts and again after each step, 0600 because a profile's
environment may hold secrets. Reading tolerates anything: a damaged file is a shard that cannot be
adopted, and its processes are found by their mark.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from llmgw.agent.supervisor import workdir
from llmgw.agent.supervisor.kinship import Identity
from llmgw.domain.names import SHARD_ID
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import EngineFailed
from llmgw.kit import logs

_DAMAGED = (
    OSError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,  # a pid of 1e999
    RecursionError,
)
_log = logs.get(__name__)
_FILE_MODE = 0o600
_MOST = 2**31 - 1
"""The largest number that a message carries."""


@dataclass(frozen=True, slots=True)
class Record:
    """One shard as it is on disk; ``processes`` are in the order of their start."""

    spec: ShardSpec
    boot_id: str
    started_at: float
    processes: tuple[Identity, ...] = ()
    is_launched: bool = False
    ready_at: float | None = None
    is_draining: bool = False
    is_stopping: bool = False
    failure: str = ""
    """Why the agent is ending it; empty while it is not."""

    @property
    def engine(self) -> Identity | None:
        """The process that is the shard, once all of them were started."""
        return self.processes[-1] if self.is_launched and self.processes else None


class StateFile:
    """The file of one living shard; an engine that runs is worth more than its file."""

    def __init__(self, path: Path, record: Record) -> None:
        """Nothing is written yet."""
        self.record = record
        self._path = path

    @property
    def mark(self) -> str:
        """What every process of the shard carries in its environment."""
        return str(self._path)

    def begin(self) -> None:
        """Write it for the first time, before any process: ``EngineFailed`` where that fails.

        Without a file no later agent would know what to end.
        """
        try:
            save(self._path, self.record)
        except OSError as error:
            raise EngineFailed(
                f"{self._path} cannot be written ({error.strerror}), and without it no engine is "
                "started; make room there, or set supervisor.work_dir"
            ) from error

    def save(self, **changes: Any) -> None:
        """Replace fields of the record, on disk before the next step is taken."""
        self.record = replace(self.record, **changes)
        try:
            save(self._path, self.record)
        except OSError as error:
            # Only an agent restart would miss it.
            _log.warning("state_not_saved", path=self.mark, error=str(error))

    def forget(self) -> None:
        """The shard has ended."""
        try:
            remove(self._path)
        except OSError as error:
            # What is left tells the next agent of processes that it will not find.
            _log.warning("state_not_removed", path=self.mark, error=str(error))


def save(path: Path, record: Record) -> None:
    """Replace the file in one step."""
    fresh = path.with_name(path.name + workdir.UNFINISHED)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(asdict(record), file)
    fresh.rename(path)


def load(path: Path, *, shard_id: str) -> Record | None:
    """The record, or nothing when the file is damaged or tells of another shard than its name."""
    with contextlib.suppress(*_DAMAGED):
        record = _record(json.loads(path.read_text(encoding="utf-8")))
        if record.spec.shard_id == shard_id and SHARD_ID.fullmatch(shard_id):
            return record
    return None


def remove(path: Path) -> None:
    """Forget the shard; a file that is gone already is as well."""
    path.unlink(missing_ok=True)


def startup_budget_s(record: Record, *, now: float, at_least_s: float) -> float:
    """How long an adopted shard may take to be ready.

    One that was ready before gets its whole budget anew, because an engine at work may be slow to
    answer; another gets what is left of it.
    """
    whole = record.spec.startup_timeout_s
    if record.ready_at is not None:
        return max(whole, at_least_s)
    left = record.started_at + whole - now
    return max(min(left, whole), at_least_s)


def _record(stored: Mapping[str, Any]) -> Record:
    ready_at = stored["ready_at"]
    return Record(
        spec=_spec(stored["spec"]),
        boot_id=_text(stored["boot_id"]),
        started_at=_figure(stored["started_at"]),
        processes=tuple(_identity(one) for one in stored["processes"]),
        is_launched=bool(stored["is_launched"]),
        ready_at=None if ready_at is None else _figure(ready_at),
        is_draining=bool(stored["is_draining"]),
        is_stopping=bool(stored["is_stopping"]),
        failure=_text(stored.get("failure", "")),
    )


def _identity(stored: Mapping[str, Any]) -> Identity:
    pid, ticks = int(stored["pid"]), int(stored["start_ticks"])
    if pid <= 1:
        raise ValueError(pid)
    return Identity(name=_text(stored["name"]), pid=pid, start_ticks=ticks)


def _spec(stored: Mapping[str, Any]) -> ShardSpec:
    profile = LaunchProfile(**_known(stored["profile"], LaunchProfile))
    return ShardSpec(profile=profile, **_known({**stored, "profile": None}, ShardSpec))


def _known(stored: Mapping[str, Any], made: type[ShardSpec | LaunchProfile]) -> dict[str, Any]:
    """The values of fields that this version has, each as its type says.

    One of another type would be found out only when it is said to a control plane, at every try.
    """
    types = {one.name: str(one.type) for one in fields(made)}
    return {
        name: _READERS[types[name]](value)
        for name, value in stored.items()
        if types.get(name) in _READERS
    }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()  # refuses what no message can carry
    return value


def _whole(value: object) -> int:
    if type(value) is not int or abs(value) > _MOST:
        raise ValueError(value)
    return value


def _figure(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(value)
    return float(value)


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(value)
    return value


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "str": _text,
    "int": _whole,
    "int | None": lambda value: None if value is None else _whole(value),
    "float": _figure,
    "tuple[int, ...]": lambda value: tuple(map(_whole, _list(value))),
    "tuple[str, ...]": lambda value: tuple(map(_text, _list(value))),
    "Mapping[str, str]": lambda value: {_text(k): _text(v) for k, v in value.items()},
}
