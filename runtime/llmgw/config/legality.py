"""Words for people: what may be written for a setting, what was probably meant, what was given.

Used by ``config.reading`` for messages and by ``config.reference`` for the page; pure.
"""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

PORTS = "a list of the first and the last port, such as [20000, 20999]"
NAMES = "a section of names, each with a text"
SECTIONS = "a section of names, each with a section"

_NEAR = 0.8
"""Two slips in ten letters; what is farther off is another word, and a guess would mislead."""

_PLAIN: Mapping[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
}


def legal(hint: Any) -> str:
    """What may be written for a type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return str(args[1].value)
    if origin in {Union, types.UnionType}:
        return " or ".join(legal(kind) for kind in args if kind is not types.NoneType)
    if origin is Literal:
        return f"one of {', '.join(w or '(empty)' for w in args)}" if len(args) > 1 else args[0]
    if origin is tuple:
        return f"a list; each item {legal(args[0])}" if args[-1] is Ellipsis else PORTS
    if origin is not None:
        return NAMES if args[1] is str else SECTIONS
    return section(hint) if dataclasses.is_dataclass(hint) else _PLAIN[hint]


def section(kind: Any) -> str:
    """What may be written for a group."""
    return f"a section with {', '.join(f.name for f in dataclasses.fields(kind))}"


def nearest(key: str, names: Sequence[str]) -> str:
    """The legal name that was probably meant, or all of them."""
    return meant(key, names) or f"legal here: {', '.join(names)}"


def meant(key: str, names: Sequence[str]) -> str:
    """The legal name that was probably meant; empty when none is near."""
    close = difflib.get_close_matches(key, names, n=1, cutoff=_NEAR)
    return f"did you mean {close[0]}?" if close else ""


def given(raw: object) -> str:
    """What was written, short enough for a line."""
    text = repr(str(raw)) if isinstance(raw, str) else str(raw)
    return text if len(text) <= 60 else f"{text[:57]}…"
