"""Stored models in memory, with the same answers as the store's."""

from __future__ import annotations

from llmgw.domain.stored import StoredModel
from llmgw.errors import Conflict

SIM = {"name": "sim", "source": "sim", "profiles": [{"name": "cpu", "engine": "sim"}]}


def written(name, **fields):
    """A definition as somebody would write it."""
    return {**SIM, "name": name, **fields}


def row(name, definition=None, *, at=1.0, **fields):
    """A stored entry; ``fields`` change its definition."""
    kept = written(name, **fields) if definition is None else definition
    return StoredModel(name, kept, actor="ann", created_at=at, updated_at=at, revision=1)


class StoredModelsInMemory:
    """Fits ``control.catalog.keeping.StoredModels``."""

    def __init__(self, *rows):
        self.rows = {row.name: row for row in rows}
        self.error = None
        self.writes = 0
        self.before_write = lambda: None

    async def all(self):
        if self.error is not None:
            raise self.error
        return list(self.rows.values())

    async def apply(self, edits, *, actor, at, owner=""):
        self.before_write()
        if self.error is not None:
            raise self.error
        rows = dict(self.rows)
        for edit in edits:
            if rows.get(edit.name) != edit.before:
                raise Conflict(f"the model {edit.name} was changed meanwhile")
            rows.pop(edit.name, None)
            if edit.definition is not None:
                before = edit.before
                rows[edit.name] = StoredModel(
                    edit.name,
                    edit.definition,
                    actor=before.actor if before else actor,
                    created_at=before.created_at if before else at,
                    updated_at=at,
                    revision=before.revision + 1 if before else 1,
                )
        self.rows, self.writes = rows, self.writes + 1
