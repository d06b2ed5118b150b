"""What an operator's word on the catalog means for the stored entries; pure.

Nothing is checked here but whether such an entry may be changed: the whole catalog that would come
of it is checked by ``composing``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llmgw.control.catalog.composing import Composition
from llmgw.domain import definitions, transcribing
from llmgw.domain.catalog import Model, unknown_model
from llmgw.domain.catalog_views import ScalingWish
from llmgw.domain.stored import ModelEdit, StoredModel
from llmgw.errors import CatalogInvalid, Conflict, Invalid, Problem, Unknown

Definition = Mapping[str, object]


def added(now: Composition, definition: Definition, *, may_replace: bool) -> Sequence[ModelEdit]:
    """A new entry, or one in place of a stored one; none where it is there just so.

    ``Conflict`` where its name is declared, or stored and may not be replaced.
    """
    name = _name(definition)
    _check_not_declared(now, name)
    row = now.rows.get(name)
    if row is not None and row.definition == definition:
        return ()
    if row is not None and not may_replace:
        why = now.catalog.skipped.get(name)
        left_out = f" (left out of the catalog: {why})" if why else ""
        raise Conflict(
            f"the model {name} is there already{left_out}; 'llmgw ctl model add --replace' writes "
            "another definition in its place"
        )
    return (ModelEdit(name, before=row, definition=definition),)


def removed(now: Composition, name: str) -> Sequence[ModelEdit]:
    """An entry less; ``Unknown``, ``Conflict`` where it is declared or others fall back to it."""
    row = now.rows.get(name)
    if row is None:
        _check_not_declared(now, name)
        raise _unknown(now, name)
    model = now.catalog.models.get(name) if name in now.catalog.stored else None
    users = [] if model is None else _users(now, model)
    if users:
        raise Conflict(
            f"{', '.join(users)} fall(s) back to {name}; first give other fallbacks: "
            f"llmgw ctl model fallbacks {users[0]} …"
        )
    return (ModelEdit(name, before=row, definition=None),)


def rescaled(now: Composition, name: str, wish: ScalingWish) -> Sequence[ModelEdit]:
    """Other numbers of replicas; everything else stays as it was written."""
    row = _row(now, name)
    written = _definition(row).get("scaling")
    before = written if isinstance(written, Mapping) else {}
    idle_timeout = before.get("idle_timeout") if wish.idle_timeout is None else wish.idle_timeout
    scaling = {"min": wish.min, "max": wish.max, "idle_timeout": idle_timeout}
    return _rewritten(row, "scaling", {k: v for k, v in scaling.items() if v is not None})


def with_fallbacks(now: Composition, name: str, fallbacks: Sequence[str]) -> Sequence[ModelEdit]:
    """Other models that answer in its stead; an empty list takes all away."""
    return _rewritten(_row(now, name), "fallbacks", list(fallbacks) or None)


def described(now: Composition, name: str, description: str) -> Sequence[ModelEdit]:
    """Another line for people who choose; an empty one takes it away."""
    return _rewritten(_row(now, name), "description", description or None)


def applied(
    now: Composition, wanted: Sequence[Definition], *, may_remove: bool
) -> Sequence[ModelEdit]:
    """Whatever makes the stored entries those that are ``wanted``, all of the catalog.

    Entries that mean what is there stay as they were written. ``Conflict`` names every declared one
    that is wanted otherwise; with ``may_remove`` stored ones that are not wanted go.
    """
    by_name = _by_name(wanted)
    declared = {model.name: model for model in now.declared}
    other = [n for n, d in by_name.items() if n in declared and not _means(d, declared[n])]
    if other:
        raise Conflict(f"{', '.join(sorted(other))}: {_WHERE_DECLARED}")
    edits = [
        ModelEdit(name, before=row, definition=definition)
        for name, definition in by_name.items()
        if name not in declared
        and ((row := now.rows.get(name)) is None or not _is_same(row, definition, now))
    ]
    gone = [row for name, row in now.rows.items() if may_remove and name not in by_name]
    return [*edits, *(ModelEdit(row.name, before=row, definition=None) for row in gone)]


_WHERE_DECLARED = (
    "declared in the settings of the server; change it there (`models` in server.yaml, or what "
    "'llmgw up' was given) and restart, for a change here would be undone by the next start"
)


def _name(definition: Definition) -> str:
    name = definition.get("name")
    if not isinstance(name, str) or not name.strip():
        raise CatalogInvalid("nothing was changed: 1 mistake", [Problem("name", "is required")])
    return name.strip()


def _by_name(wanted: Sequence[Definition]) -> Mapping[str, Definition]:
    by_name: dict[str, Definition] = {}
    for definition in wanted:
        name = _name(definition)
        if name in by_name:
            raise Invalid(f"the model {name} is written twice; leave one of them")
        by_name[name] = definition
    return by_name


def _check_not_declared(now: Composition, name: str) -> None:
    for model in now.declared:
        if name in model.names:
            raise Conflict(f"{model.name} is {_WHERE_DECLARED}")


def _row(now: Composition, name: str) -> StoredModel:
    """A stored entry by its name or alias; ``Unknown``, ``Conflict`` where it is declared."""
    _check_not_declared(now, name)
    found = now.catalog.resolve(name)
    if found is None:
        raise _unknown(now, name)
    return now.rows[found.name]


def _unknown(now: Composition, name: str) -> Unknown | Conflict:
    why = now.catalog.skipped.get(name)
    if why is not None:
        return Conflict(
            f"the stored model {name} was left out of the catalog: {why}; write it anew with "
            "'llmgw ctl model add --replace', or remove it"
        )
    found = now.catalog.resolve(name)
    if found is not None:
        return Unknown(f"{name!r} is another name of {found.name}; say {found.name}")
    return unknown_model(name)


def _users(now: Composition, model: Model) -> list[str]:
    others = now.catalog.models.values()
    return sorted(
        other.name
        for other in others
        if other.name != model.name and set(other.fallbacks) & set(model.names)
    )


def _rewritten(row: StoredModel, key: str, value: object) -> Sequence[ModelEdit]:
    """The entry with one key written otherwise, in its old place; none where that is no change."""
    before = _definition(row)
    definition = {**before, key: value}
    if value is None:
        del definition[key]
    if definition == before:
        return ()
    return (ModelEdit(row.name, before=row, definition=definition),)


def _definition(row: StoredModel) -> Definition:
    if isinstance(row.definition, str):
        raise Conflict(f"the stored model {row.name} cannot be read; remove it or write it anew")
    return row.definition


def _is_same(row: StoredModel, definition: Definition, now: Composition) -> bool:
    model = now.catalog.models.get(row.name)
    if row.name not in now.catalog.stored or model is None:
        return row.definition == definition
    return _means(definition, model)


def _means(definition: Definition, model: Model) -> bool:
    reading = definitions.read_model(definition, path="model")
    if reading.problems:
        return False
    return transcribing.written(reading.entries[0].model) == transcribing.written(model)
