"""The shape of settings: the keys of a group with their types, the key paths of a role; pure."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from llmgw.config.declaring import ABOUT, About


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a group."""

    name: str
    hint: Any
    about: About
    is_required: bool
    default: Any = None

    @property
    def group(self) -> type[Any] | None:
        """The group below this key, when its value is one, or may be one."""
        return _group_in(self.hint)

    @property
    def item_group(self) -> type[Any] | None:
        """The group of each item, when the value is a list of groups or has them by name."""
        if get_origin(self.hint) is tuple:
            return _group_in(get_args(self.hint)[0])
        return _group_in(get_args(self.hint)[1]) if self.is_by_name else None

    @property
    def is_by_name(self) -> bool:
        """Whether the value is a section of free names."""
        return get_origin(self.hint) is Mapping


def keys(kind: type[Any]) -> list[Key]:
    """The keys of a group, in the order in which they are written down."""
    hints = get_type_hints(kind, include_extras=True)
    return [
        Key(
            name=field.name,
            hint=hints[field.name],
            about=field.metadata[ABOUT],
            is_required=_default(field) is dataclasses.MISSING,
            default=_default(field),
        )
        for field in dataclasses.fields(kind)
    ]


def paths(kind: type[Any], *, at: str = "") -> Iterator[str]:
    """Every key path of a role's settings, those of sections too; what lists hold has none."""
    for key in keys(kind):
        path = joined(at, key.name)
        yield path
        if key.group is not None:
            yield from paths(key.group, at=path)


def joined(at: str, name: str) -> str:
    """The key path of a name below ``at``."""
    return f"{at}.{name}" if at else name


def is_group(kind: object) -> bool:
    """Whether a type is a group of settings; types of other floors have no ``About``."""
    return dataclasses.is_dataclass(kind) and all(
        ABOUT in f.metadata for f in dataclasses.fields(kind)
    )


def _group_in(hint: Any) -> type[Any] | None:
    kinds = get_args(hint) if get_origin(hint) in {Union, types.UnionType} else (hint,)
    return next((kind for kind in kinds if is_group(kind)), None)


def _default(field: dataclasses.Field[Any]) -> Any:
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()
