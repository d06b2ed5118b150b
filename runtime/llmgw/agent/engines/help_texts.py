"""Reads what a program says of its options: help of argparse, of click, of llama.cpp; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_MOST_INDENT = 4
_HEADING = re.compile(rf"^ {{0,{_MOST_INDENT}}}(-[-\w].*)$", re.MULTILINE)
_DESCRIPTION = re.compile(r" {2,}")
_OPTION = re.compile(
    r"(?<![\w-])(-{1,2}[A-Za-z][\w.-]*)"  # a name
    r"(?:[ =](\{[^}]*\}|\[[^\]]*\]|<[^>]*>|[^\s,\-\[{</][^\s,]*))?"  # what it takes
)
_WORDS = re.compile(r"[^\s,|'\"]+")
_OPENERS = "{[<"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: whether it takes a value, and which values, where only some are legal."""

    takes_value: bool
    choices: tuple[str, ...] = ()


def parse(text: str) -> Mapping[str, Option]:
    """Each option by each of its names."""
    found: dict[str, Option] = {}
    for names, option in _lines(text):
        for name in names:
            found.setdefault(name, option)
    return found


def is_whole(options: Mapping[str, Option]) -> bool:
    """Whether the text reached us to its end: every program documents its own help."""
    return "--help" in options


def _lines(text: str) -> Iterator[tuple[list[str], Option]]:
    for line in _HEADING.findall(text):
        # llama.cpp aligns long names after short ones: ``-c,    --ctx-size N``.
        heading = _DESCRIPTION.split(re.sub(r",\s+(?=-)", ", ", line))[0]
        pairs = _OPTION.findall(heading)
        values = [value for _, value in pairs if value]
        yield [name for name, _ in pairs], Option(bool(values), _choices(values))


def _choices(values: list[str]) -> tuple[str, ...]:
    """The values that a placeholder lists: ``{a,b}``, ``[a|b]``, ``['a', 'b']``, ``<0|1>``."""
    listed = next((value for value in values if value[0] in _OPENERS), "")
    words = tuple(_WORDS.findall(listed[1:-1]))
    return words if len(words) > 1 and "..." not in listed else ()
