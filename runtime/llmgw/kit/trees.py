"""Frozen dataclasses as trees of JSON, and the difference of two of them.

For what is kept on disk and read again: a value that was encoded, and every later one told only by
what has changed in it, decodes to the same values in the same order. Unknown keys are left out and
missing ones take their defaults, so an older or newer file can be read. Pure.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import types
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Union, get_args, get_origin, get_type_hints

from llmgw.errors import Invalid

WHOLE, PARTS, GONE, KIND = "=", "~", "-", "kind"
"""Keys of a difference (a new value, changes by key, keys that went), and the class in a union."""


def encode(value: object) -> Any:
    """The tree of a value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encode(getattr(value, name)) for name in _fields(type(value))}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_key(key): encode(one) for key, one in value.items()}
    if isinstance(value, AbstractSet):
        return sorted(map(encode, value))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [encode(one) for one in value]
    return value


def encode_one_of(value: object) -> Any:
    """The tree of a member of a union, with the name of its class."""
    return {KIND: type(value).__name__, **encode(value)}


def difference(before: object, after: object) -> Any:
    """What makes ``patched`` turn the tree of ``before`` into that of ``after``; none if equal.

    What both share is not looked into, so it costs what has changed.
    """
    if before is after:
        return None
    if type(before) is not type(after):
        return {WHOLE: encode(after)}
    if dataclasses.is_dataclass(after) and not isinstance(after, type):
        changes = {
            name: change
            for name in _fields(type(after))
            if (change := difference(getattr(before, name), getattr(after, name))) is not None
        }
        return {PARTS: changes} if changes else None
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        return _of_mappings(before, after)
    return None if before == after else {WHOLE: encode(after)}


def patched(tree: Any, change: Any) -> Any:
    """The tree with a difference in it; neither is altered."""
    if change is None:
        return tree
    if WHOLE in change:
        return change[WHOLE]
    gone = frozenset(change.get(GONE, ()))
    result = {key: one for key, one in tree.items() if key not in gone} if gone else dict(tree)
    for key, part in change.get(PARTS, {}).items():
        result[key] = patched(result.get(key), part)
    return result


def decode(shape: Any, tree: Any) -> Any:
    """The value of a tree; ``Invalid`` when it has another shape."""
    try:
        return _decoded(shape, tree)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Invalid(f"this is no {getattr(shape, '__name__', shape)}: {error!r}") from error


def _of_mappings(before: Mapping[Any, Any], after: Mapping[Any, Any]) -> Any:
    kept = [key for key in before if key in after]
    changes = {
        _key(key): {WHOLE: encode(one)} if key not in before else difference(before[key], one)
        for key, one in after.items()
        if key not in before or before[key] is not one
    }
    changes = {key: change for key, change in changes.items() if change is not None}
    added = [key for key in after if key not in before]
    if [*kept, *added] != list(after):
        return {WHOLE: encode(after)}  # the order is part of the value: a pass goes by it
    gone = [_key(key) for key in before if key not in after]
    if not changes and not gone:
        return None
    return {PARTS: changes, **({GONE: gone} if gone else {})}


def _decoded(shape: Any, tree: Any) -> Any:
    origin = get_origin(shape)
    if origin in {Union, types.UnionType}:
        return _of_union(get_args(shape), tree)
    if origin is tuple:
        return _of_tuple(get_args(shape), tree)
    if isinstance(origin, type) and issubclass(origin, AbstractSet):
        return frozenset(_decoded(get_args(shape)[0], one) for one in tree)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key_shape, value_shape = get_args(shape)
        return {_unkeyed(key_shape, k): _decoded(value_shape, v) for k, v in tree.items()}
    if isinstance(origin, type) and issubclass(origin, Collection):
        return tuple(_decoded(get_args(shape)[0], one) for one in tree)
    if isinstance(shape, type) and issubclass(shape, enum.Enum):
        return shape(tree)
    if isinstance(shape, type) and dataclasses.is_dataclass(shape):
        fields = _fields(shape)
        told = {name: _decoded(fields[name], tree[name]) for name in fields if name in tree}
        return shape(**told)
    return tree


def _of_union(shapes: Sequence[Any], tree: Any) -> Any:
    if tree is None and type(None) in shapes:
        return None
    others = [shape for shape in shapes if shape is not type(None)]
    if len(others) == 1:
        return _decoded(others[0], tree)
    if isinstance(tree, dict) and KIND in tree:
        by_name = {shape.__name__: shape for shape in others}
        return _decoded(by_name[tree[KIND]], tree)
    return tree


def _of_tuple(shapes: Sequence[Any], tree: Any) -> tuple[Any, ...]:
    if len(shapes) == 2 and shapes[1] is Ellipsis:
        return tuple(_decoded(shapes[0], one) for one in tree)
    return tuple(_decoded(shape, one) for shape, one in zip(shapes, tree, strict=True))


def _key(key: object) -> str:
    """A key as text; one of several parts as a list of them."""
    return key if type(key) is str else json.dumps(encode(key))


def _unkeyed(shape: Any, key: str) -> Any:
    return key if shape is str else _decoded(shape, json.loads(key))


@functools.cache
def _fields(shape: Any) -> Mapping[str, Any]:
    """The fields of a dataclass with their types."""
    hints = get_type_hints(shape)
    return {field.name: hints[field.name] for field in dataclasses.fields(shape)}
