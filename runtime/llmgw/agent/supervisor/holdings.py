"""Which cards the engines of this machine hold, as their state files tell anybody who looks.

The inventory asks it, which runs beside an agent or without one; so nothing is locked here.
"""

from __future__ import annotations

from pathlib import Path

from llmgw.agent.supervisor import adoption, workdir
from llmgw.agent.supervisor.adoption import Record
from llmgw.kit import proctable


def held_cards(folder: Path) -> frozenset[int]:
    """Cards of shards that live; ``OSError`` when the folder is there and may not be read."""
    if not folder.is_dir():
        return frozenset()
    next(folder.iterdir(), None)  # globbing finds nothing in a folder that is closed to us
    boot = proctable.boot_id()
    records = (
        adoption.load(path, shard_id=shard_id)
        for shard_id, path in workdir.state_files(folder).items()
    )
    return frozenset(
        index
        for record in records
        if record is not None and _lives(record, boot=boot)
        for index in record.spec.gpu_indices
    )


def _lives(record: Record, *, boot: str) -> bool:
    found = (proctable.entry(process.pid) for process in record.processes)
    starts = {process.start_ticks for process in record.processes}
    return record.boot_id == boot and any(one and one.start_ticks in starts for one in found)
