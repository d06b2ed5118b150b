"""Reads definitions as they come to the admin API: values of JSON, or a text of YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llmgw.config import sources
from llmgw.errors import CatalogInvalid, Invalid

Definition = Mapping[str, Any]


def one(written: Definition | str) -> Definition:
    """One model: a mapping, a list with one, or ``models`` with one; ``Invalid`` for others."""
    if not isinstance(written, str):
        return written
    found = _listed(_read(written))
    if len(found) != 1:
        raise Invalid(
            f"there are {len(found)} models in it, and one is added at a time; "
            "'llmgw ctl model apply' takes several"
        )
    return found[0]


def several(written: Sequence[Definition] | str) -> Sequence[Definition]:
    """Any number of models, in the same forms."""
    return _listed(_read(written)) if isinstance(written, str) else written


def _read(text: str) -> object:
    found, problems = sources.from_text(text)
    if problems:
        raise CatalogInvalid(f"nothing was changed: {len(problems)} mistake(s)", problems)
    return found


def _listed(found: object) -> Sequence[Definition]:
    if isinstance(found, Mapping) and "models" in found:
        others = sorted(str(key) for key in found if key != "models")
        if others:
            raise Invalid(f"beside models there is {', '.join(others)}; give models alone")
        found = found["models"]
    listed: list[object] = found if isinstance(found, list) else [] if found is None else [found]
    models = [item for item in listed if isinstance(item, Mapping)]
    if len(models) != len(listed):
        raise Invalid("a model is a mapping with name, source and profiles")
    return models
