"""Writes models as people write them, so that ``definitions`` reads the same models again; pure.

For entries of which only the model is known, not how somebody wrote it. What has its default is
left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.errors import Invalid
from llmgw.kit import units

_DURATIONS: Mapping[str, str] = {
    "startup_timeout_s": "startup_timeout",
    "idle_timeout_s": "idle_timeout",
}
"""Fields that are written under another key, as durations."""


def written(model: Model) -> dict[str, object]:
    """The definition of a model."""
    fields = _changed(model, Model(name="", source=""), leave=("scaling", "profiles"))
    if model.scaling is not None:
        fields["scaling"] = _scaling(model.scaling)
    if model.profiles:
        fields["profiles"] = [_profile(profile) for profile in model.profiles]
    return fields


def _scaling(scaling: Scaling) -> dict[str, object]:
    """``min`` always: an empty stanza would look forgotten."""
    fields = {"min": scaling.min, **_changed(scaling, Scaling(), leave=("min",))}
    if scaling.max == scaling.min:
        fields.pop("max", None)
    return fields


def _profile(profile: Profile) -> dict[str, object]:
    return _changed(profile, Profile(name="", engine=""))


def _changed(
    value: Model | Profile | Scaling,
    plain: Model | Profile | Scaling,
    *,
    leave: Sequence[str] = (),
) -> dict[str, object]:
    """The fields that differ from those of a ``plain`` one, as they are written."""
    return {
        _DURATIONS.get(name, name): _text(name, getattr(value, name))
        for name in [one.name for one in dataclasses.fields(value)]
        if name not in leave and getattr(value, name) != getattr(plain, name)
    }


def _text(name: str, value: object) -> object:
    if name in _DURATIONS and isinstance(value, float):
        shown = units.shown_seconds(value)
        return shown if _means(shown, value) else value
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _means(shown: str, value_s: float) -> bool:
    try:
        return units.seconds(shown) == value_s
    except Invalid:
        return False
