# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Writes and reads the archive of a wheelhouse.

It holds ``wheels/``, ``pip.whl`` to install them with, ``requirements.txt`` with the digest of
each wheel, ``wheelhouse.json`` that says what it is for, and ``SHA256SUMS`` over all of these. The
same wheels make the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import _wheels

About = Mapping[str, Any]
"""``version``, ``identity``, ``tag`` and ``extras``."""

_ABOUT = "wheelhouse.json"
_SAID = frozenset({"version", "identity", "tag", "extras"})
_EPOCH = 315532800
_PIP = "pip"


def pack(path: Path, *, wheels: Sequence[Path], about: About) -> None:
    """Write the archive."""
    contents = {_place(wheel): wheel.read_bytes() for wheel in wheels}
    contents[_ABOUT] = f"{json.dumps(about, indent=1, sort_keys=True)}\n".encode()
    contents["requirements.txt"] = _requirements(wheels).encode()
    contents["SHA256SUMS"] = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()
    ).encode()
    with tarfile.open(path, "w") as archive:
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode, member.mtime = len(content), 0o644, _EPOCH
            archive.addfile(member, io.BytesIO(content))


def about(path: Path) -> About:
    """What the archive says it is for; raises ValueError when it is no wheelhouse."""
    try:
        with tarfile.open(path) as archive:
            said: About = json.loads(archive.extractfile(_ABOUT).read())  # type: ignore[union-attr]
    except (tarfile.TarError, AttributeError, KeyError, ValueError, OSError) as error:
        raise ValueError(f"{path} is no wheelhouse: {error}") from error
    if not isinstance(said, dict) or not said.keys() >= _SAID:
        raise ValueError(f"{path} is no wheelhouse: its {_ABOUT} lacks {_lacking(said)}")
    return said


def _lacking(said: object) -> str:
    return ", ".join(sorted(_SAID - (said.keys() if isinstance(said, dict) else set())))


def _place(wheel: Path) -> str:
    return "pip.whl" if _wheels.name_of(wheel) == _PIP else f"wheels/{wheel.name}"


def _requirements(wheels: Sequence[Path]) -> str:
    """Every wheel with its digest; pip itself only runs out of its own."""
    return "".join(
        f"{_wheels.name_of(wheel)}=={_wheels.version_of(wheel)} "
        f"--hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"
        for wheel in wheels
        if _wheels.name_of(wheel) != _PIP
    )
