"""A control group for each shard, where the agent's own unit lets it make some.

A process cannot leave its group as it can leave its session, its environment and its parent, so
whatever an engine started is found there. ``kinship`` looks, ``processes`` puts engines in. Where
systemd has not handed the group on (``Delegate=yes`` in the unit) nothing is made: systemd would be
in the way, and the other signs have to do. Files of a group: cgroups(7).
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from llmgw.kit import logs

_SELF = Path("/proc/self")
_KIND = "cgroup2"
_MEMBERS = "cgroup.procs"
_HANDED_ON = ("user.delegate", "trusted.delegate")
"""How systemd notes that a group is its unit's to divide."""

_PREFIX = "shard-"
_log = logs.get(__name__)


def own() -> Path | None:
    """The group of this process, if it may divide it."""
    try:
        folder = _folder()
    except (OSError, ValueError):
        return None
    return folder if folder is not None and _is_handed_on(folder) else None


def enter(pid: int, *, mark: str) -> None:
    """Put a process into the group of its shard; one that cannot be is found by its other signs."""
    folder = own()
    if folder is None:
        return
    group = _group(folder, mark)
    try:
        group.mkdir(exist_ok=True)
        (group / _MEMBERS).write_text(str(pid), encoding="ascii")
    except ProcessLookupError:
        pass  # it has ended already
    except OSError as error:
        _log.warning("group_not_used", group=str(group), error=error.strerror)


def pids(folder: Path | None, *, mark: str) -> frozenset[int]:
    """The processes in the group of a shard, and in groups that these made below it."""
    if folder is None:
        return frozenset()
    found: set[int] = set()
    for file in _group(folder, mark).rglob(_MEMBERS):
        with contextlib.suppress(OSError):  # gone meanwhile, or a group of threads
            found.update(map(int, file.read_text(encoding="ascii").split()))
    return frozenset(found)


def leave(*, mark: str) -> None:
    """Remove the group of a shard, unless something still runs in it."""
    folder = own()
    if folder is None:
        return
    group = _group(folder, mark)
    below = sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True)
    for one in (*below, group):
        with contextlib.suppress(OSError):
            one.rmdir()


def shards() -> tuple[str, ...]:
    """The ids of shards that have a group, also those of an earlier agent of this unit."""
    folder = own()
    if folder is None:
        return ()
    return tuple(sorted(one.name.removeprefix(_PREFIX) for one in folder.glob(f"{_PREFIX}*")))


def _group(folder: Path, mark: str) -> Path:
    return folder / Path(mark).stem


def _folder() -> Path | None:
    """Where the group of this process lies: below the mount of its kind, as seen from here."""
    lines = (_SELF / "cgroup").read_text(encoding="utf-8").splitlines()
    path = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    for line in (_SELF / "mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, kind = line.partition(" - ")
        _, _, _, root, place = fields.split()[:5]
        if path is not None and kind.split()[0] == _KIND:
            return Path(place) / os.path.relpath(path, root)
    return None


def _is_handed_on(folder: Path) -> bool:
    for name in _HANDED_ON:
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False
