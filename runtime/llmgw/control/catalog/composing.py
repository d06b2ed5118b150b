"""One catalog of what is declared and what is stored; pure.

Declared models win every conflict. A stored entry that cannot be taken in is left out with its
reason, and takes nothing else down; which rows were written first does not matter otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from llmgw.domain import catalog_rules, definitions
from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.catalog_rules import Entry
from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import CatalogInvalid, Conflict, Problem

_PLACE = re.compile(r"stored\[(\d+)\]\.?")


@dataclass(frozen=True, slots=True)
class Composition:
    """A catalog and what it was made of; ``rows`` has the stored entries that were left out too."""

    catalog: Catalog
    declared: tuple[Model, ...]
    rows: Mapping[str, StoredModel]

    @property
    def left_out_sources(self) -> tuple[str, ...] | None:
        """Where the weights of entries that were left out are; absent where one does not say."""
        written = [self.rows[name].definition for name in self.catalog.skipped]
        sources = [one.get("source") for one in written if isinstance(one, Mapping)]
        told = tuple(source for source in sources if isinstance(source, str))
        return told if len(told) == len(written) else None


def compose(declared: Iterable[Model], rows: Iterable[StoredModel]) -> Composition:
    """The catalog; ``CatalogInvalid`` where what is declared is wrong in itself."""
    declared, held = tuple(declared), sorted(rows, key=lambda row: (row.created_at, row.name))
    taken = _taken(declared)
    entries, skipped = _read(held)
    kept = dict(entries)
    refused = _refused(kept, taken=taken)
    while refused:
        skipped |= refused
        kept = {name: entry for name, entry in kept.items() if name not in refused}
        refused = _bereft(kept, gone=[entries[name] for name in refused], taken=taken)
    for name in _taken_back(entries, kept, taken=taken):
        del skipped[name]
    models = [*declared, *(entries[name].model for name in entries if name not in skipped)]
    catalog = catalog_rules.build(
        models, stored=entries.keys() - skipped.keys(), skipped=dict(sorted(skipped.items()))
    )
    return Composition(catalog, declared=declared, rows={row.name: row for row in held})


def changed(before: Composition, edits: Sequence[ModelEdit], *, at: float) -> Composition:
    """What would come of changes.

    ``CatalogInvalid`` with every mistake in them, ``Conflict`` where an entry that is not changed
    would be left out for their sake.
    """
    _check(before, edits)
    rows = dict(before.rows)
    for edit in edits:
        rows.pop(edit.name, None)
        if edit.definition is not None:
            rows[edit.name] = _row(edit, at=at)
    after = compose(before.declared, rows.values())
    touched = {edit.name for edit in edits}
    for name, why in after.catalog.skipped.items():
        if name in before.catalog.models or name in touched:
            raise Conflict(f"nothing was changed: {name} depends on it ({why}); change {name} too")
    return after


def _taken(models: Iterable[Model]) -> dict[str, str]:
    return {name: f"the declared model {model.name}" for model in models for name in model.names}


def _read(rows: Sequence[StoredModel]) -> tuple[dict[str, Entry], dict[str, str]]:
    """Entries that are right in themselves, by name, and why others are not."""
    entries: dict[str, Entry] = {}
    skipped: dict[str, str] = {}
    for i, row in enumerate(rows):
        if not isinstance(row.definition, Mapping):
            skipped[row.name] = "its definition cannot be read"
            continue
        reading = definitions.read_model(row.definition, path=f"stored[{i}]")
        (entry,) = reading.entries
        if reading.problems:
            skipped[row.name] = _said(reading.problems, rows)
        elif entry.model.name != row.name:
            skipped[row.name] = f"its definition is of another name, {entry.model.name!r}"
        else:
            entries[row.name] = entry
    return entries, skipped


def _refused(entries: Mapping[str, Entry], *, taken: Mapping[str, str]) -> dict[str, str]:
    """Entries of which rules are broken, and which."""
    names_by_path = {entry.path: name for name, entry in entries.items()}
    found: dict[str, list[Problem]] = {}
    for problem in catalog_rules.check(list(entries.values()), taken=taken):
        found.setdefault(names_by_path[problem.path.partition(".")[0]], []).append(problem)
    named = {entry.path: entry.model.name for entry in entries.values()}
    return {name: _named("; ".join(map(str, wrong)), named) for name, wrong in found.items()}


def _bereft(
    kept: Mapping[str, Entry], *, gone: Iterable[Entry], taken: Mapping[str, str]
) -> dict[str, str]:
    """Entries that fall back to what is gone: only these can have come to be wrong."""
    lost = {name for entry in gone for name in entry.model.names}
    users = [name for name, entry in kept.items() if lost.intersection(entry.model.fallbacks)]
    if not users:
        return {}
    known = _known(kept, taken=taken)
    found: dict[str, str] = {}
    for name in users:
        others = {n: holder for n, holder in known.items() if n not in kept[name].model.names}
        wrong = catalog_rules.check([kept[name]], taken=others)
        if wrong:
            found[name] = _named("; ".join(map(str, wrong)), {})
    return found


def _taken_back(
    entries: Mapping[str, Entry], kept: Mapping[str, Entry], *, taken: Mapping[str, str]
) -> Sequence[str]:
    """Entries that were refused only for the sake of others that are refused themselves."""
    back: list[str] = []
    known = _known(kept, taken=taken)
    left = [name for name in entries if name not in kept]
    while True:
        fitting = [n for n in left if not catalog_rules.check([entries[n]], taken=known)]
        if not fitting:
            return back
        back.append(fitting[0])
        left.remove(fitting[0])
        known |= _known({fitting[0]: entries[fitting[0]]}, taken={})


def _known(kept: Mapping[str, Entry], *, taken: Mapping[str, str]) -> dict[str, str]:
    models = [entry.model for entry in kept.values()]
    return dict(taken) | {name: f"the model {m.name}" for m in models for name in m.names}


def _check(before: Composition, edits: Sequence[ModelEdit]) -> None:
    written = [edit for edit in edits if edit.definition is not None]
    above = "model" if len(edits) == 1 else ""
    readings = [definitions.read_model(e.definition, path=above or e.name) for e in written]
    problems = [problem for reading in readings for problem in reading.problems]
    touched = {edit.name for edit in edits}
    taken = {
        name: _holder(model, before)
        for model in before.catalog.models.values()
        if model.name not in touched
        for name in model.names
    }
    entries = [entry for reading in readings for entry in reading.entries]
    problems += catalog_rules.check(entries, already=problems, taken=taken)
    if problems:
        raise CatalogInvalid(
            f"nothing was changed: {len(problems)} mistake(s) in the definition",
            [replace(one, path=one.path.removeprefix(f"{above}.")) for one in problems],
        )


def _holder(model: Model, composition: Composition) -> str:
    is_stored = model.name in composition.catalog.stored
    return f"the {'' if is_stored else 'declared '}model {model.name}"


def _row(edit: ModelEdit, *, at: float) -> StoredModel:
    before = edit.before
    definition = edit.definition or {}
    if before is None:
        return StoredModel(
            edit.name, definition, actor="", created_at=at, updated_at=at, revision=1
        )
    return replace(before, definition=definition, updated_at=at, revision=before.revision + 1)


def _said(problems: Sequence[Problem], rows: Sequence[StoredModel]) -> str:
    named = {f"stored[{i}]": row.name for i, row in enumerate(rows)}
    return _named("; ".join(map(str, problems)), named)


def _named(text: str, named: Mapping[str, str]) -> str:
    """Problems without the places of this module: each is told beside the entry's name anyway."""

    def word(found: re.Match[str]) -> str:
        is_own = found.start() == 0 or text[: found.start()].endswith("; ")
        name = named.get(f"stored[{found[1]}]", "another")
        return "" if is_own else f"the model {name}, "

    return _PLACE.sub(word, text)
