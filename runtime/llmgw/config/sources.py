"""Where settings come from: a YAML file, variables of the environment, options of a command.

Each gives plain values in one tree; what they mean is for ``config.reading`` to say.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from llmgw.config.reading import FromEnvironment
from llmgw.errors import Invalid, Problem

PREFIX = "LLMGW_"
NESTING = "__"

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A settings file is read whole; one above this size is something else."""


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """What another program may inherit: our settings are not for it, and may hold secrets."""
    return {name: value for name, value in environ.items() if not name.startswith(PREFIX)}


def from_file(path: Path) -> tuple[dict[str, Any], list[Problem]]:
    """The sections of a file, and what keeps it from being read."""
    try:
        with path.open("rb") as file:
            held = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        return {}, [Problem(path="", message=f"cannot be read: {error.strerror}")]
    if len(held) > MAX_FILE_BYTES:
        return {}, [Problem(path="", message=f"is larger than {MAX_FILE_BYTES} bytes")]
    try:
        sections, problems = from_text(held.decode())
    except UnicodeDecodeError:
        return {}, [Problem(path="", message="is no text in UTF-8")]
    except Invalid as error:
        return {}, [Problem(path="", message=error.message)]
    if sections is None:
        return {}, []
    if not isinstance(sections, dict):
        return {}, [Problem(path="", message="holds no sections: write `key: value` lines")]
    return sections, problems


def from_text(text: str) -> tuple[object, list[Problem]]:
    """What a text of YAML or JSON says, and keys that it says twice; ``Invalid`` for others."""
    try:
        loader = _Loader(text)
        found: object = loader.get_single_data()
    except (yaml.YAMLError, ValueError) as error:  # PyYAML lets a date such as 2026-13-01 through
        raise Invalid(f"is no YAML: {_where(error)}") from error
    except RecursionError:
        raise Invalid("is nested too deeply for a settings file") from None
    return found, loader.problems


def environment() -> Mapping[str, str]:
    """The variables of this process; commands hand them on, nothing below reads them itself."""
    return os.environ


def from_environment(environ: Mapping[str, str]) -> dict[str, FromEnvironment]:
    """Values by key path: ``LLMGW_GATEWAY__WORKERS`` sets ``gateway.workers``."""
    return {
        name.removeprefix(PREFIX).lower().replace(NESTING, "."): FromEnvironment.of(
            text, variable=name
        )
        for name, text in sorted(environ.items())
        if name.startswith(PREFIX)
    }


def variable(path: str) -> str:
    """The variable of the environment that sets a key path."""
    return PREFIX + path.replace(".", NESTING).upper()


def says(tree: Mapping[str, Any], *, path: str) -> bool:
    """Whether there is anything at a key path, or a mistake above it."""
    section: object = tree
    for key in path.split("."):
        if not isinstance(section, Mapping):
            return section is not None
        section = section.get(key)
    return section is not None


def put(tree: dict[str, Any], *, path: str, value: object) -> None:
    """Write a value at a key path, making the sections above; a mistaken section stays as it is."""
    *above, name = path.split(".")
    section = tree
    for key in above:
        below = section.get(key)
        if below is None:
            below = {}
        if not isinstance(below, dict):
            return
        section[key] = section = dict(below)
    section[name] = value


class _Loader(yaml.SafeLoader):
    """Safe YAML that notes a key written twice, of which YAML would drop the first in silence."""

    def __init__(self, stream: str) -> None:
        self.problems: list[Problem] = []
        super().__init__(stream)

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - PyYAML calls it so
    ) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key in seen:
                line = key_node.start_mark.line + 1
                self.problems.append(
                    Problem(path=f"line {line}", message=f"the key {key} is written twice")
                )
            if key not in {None, "<<"}:
                seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _where(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())
