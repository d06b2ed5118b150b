"""What becomes of each entry when one catalog takes another one's place; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llmgw.domain import transcribing
from llmgw.domain.catalog import Catalog, Model
from llmgw.domain.catalog_views import ChangeKind, FieldChange, ModelChange

HIDDEN = "(hidden)"
"""Stands for a value that may be a secret."""


def changes(before: Catalog, after: Catalog) -> Sequence[ModelChange]:
    """The entries that come, change and go, in the order of their names."""
    names = sorted(before.models.keys() | after.models.keys())
    pairs = [(before.models.get(name), after.models.get(name)) for name in names]
    return [_change(was, now) for was, now in pairs if was != now]


def _change(was: Model | None, now: Model | None) -> ModelChange:
    if now is None:
        return ModelChange("" if was is None else was.name, ChangeKind.REMOVE)
    if was is None:
        return ModelChange(now.name, ChangeKind.ADD, tuple(_fields({}, _flat(now))))
    return ModelChange(
        now.name,
        ChangeKind.CHANGE,
        tuple(_fields(_flat(was), _flat(now))),
        stale_profiles=tuple(
            profile.name
            for profile in was.profiles
            if (other := now.profile(profile.name)) is not None
            and other.fingerprint(model=now) != profile.fingerprint(model=was)
        ),
    )


def _fields(was: Mapping[str, object], now: Mapping[str, object]) -> Iterator[FieldChange]:
    for path in sorted(was.keys() | now.keys()):
        if was.get(path) != now.get(path):
            is_env = ".env." in path
            yield FieldChange(
                path, before=_shown(was, path, is_env), after=_shown(now, path, is_env)
            )


def _shown(values: Mapping[str, object], path: str, is_env: bool) -> object:  # noqa: FBT001 - private
    return HIDDEN if is_env and path in values else values.get(path)


def _flat(model: Model) -> Mapping[str, object]:
    """What is written of a model by path; profiles by their names, for their order says little."""
    fields = transcribing.written(model)
    flat = {key: value for key, value in fields.items() if key not in {"scaling", "profiles"}}
    if model.scaling is not None:
        flat |= _below("scaling", fields.get("scaling"))
    profiles = fields.get("profiles")
    for written, profile in zip(
        profiles if isinstance(profiles, list) else (), model.profiles, strict=False
    ):
        flat |= _below(f"profiles[{profile.name}]", written)
    return flat


def _below(path: str, written: object) -> Mapping[str, object]:
    if not isinstance(written, Mapping):
        return {path: written}
    flat: dict[str, object] = {}
    for key, value in written.items():
        flat |= _below(f"{path}.{key}", value)
    return flat
