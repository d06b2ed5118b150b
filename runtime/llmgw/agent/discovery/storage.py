"""Space on the filesystems that hold model folders, and whether other nodes see them too."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterable

from llmgw.domain.nodes import Storage

NETWORK_MAGICS = frozenset(
    {
        0x6969,  # NFS
        0x0BD00BD0,  # Lustre
        0x47504653,  # GPFS
        0x00C36400,  # CephFS
        0x65735546,  # FUSE: GlusterFS, object stores
        0xFF534D42,  # CIFS
        0xFE534D42,  # SMB2
    }
)
"""What ``statfs`` says of a network filesystem (linux/magic.h); everything else counts as local.

Taking a local filesystem for a shared one would make every node seem to have its models.
"""

_STATFS_BYTES = 256


def read(
    folders: Iterable[str],
    *,
    magic_of: Callable[[str], int | None] | None = None,
    declared: Collection[str] = (),
) -> tuple[Storage, ...]:
    """One entry a filesystem, named by the first folder on it; a missing folder is left out.

    ``declared`` are folders that somebody says others see too, whatever the filesystem is.
    """
    magic_of = magic_of or magic
    found: dict[int, Storage] = {}
    for folder in filter(None, folders):
        try:
            device = os.stat(folder).st_dev  # noqa: PTH116  (a plain string, kept as configured)
            if device in found:
                continue
            space = os.statvfs(folder)
        except OSError:
            continue
        found[device] = Storage(
            path=folder,
            free_bytes=space.f_bavail * space.f_frsize,
            total_bytes=space.f_blocks * space.f_frsize,
            is_shared=folder in declared or magic_of(folder) in NETWORK_MAGICS,
        )
    return tuple(found.values())


def is_shared(folder: str) -> bool:
    """Whether a folder is on a network filesystem."""
    return magic(folder) in NETWORK_MAGICS


def magic(folder: str) -> int | None:
    """The type number of a folder's filesystem, or nothing when it cannot be asked.

    ``os.statvfs`` leaves it out; it is the first word of the C structure on 64-bit Linux.
    """
    answer = ctypes.create_string_buffer(_STATFS_BYTES)
    try:
        statfs = ctypes.CDLL(None, use_errno=True).statfs
    except (OSError, AttributeError):
        return None
    if statfs(os.fsencode(folder), answer) != 0:
        return None
    return ctypes.c_long.from_buffer(answer).value & 0xFFFFFFFF
