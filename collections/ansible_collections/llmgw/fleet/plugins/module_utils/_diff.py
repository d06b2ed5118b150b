# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""Shows what a task changes, before and after, with every secret hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "********"
SECRET_WORDS = frozenset(
    {"api_key", "dsn", "passphrase", "passwd", "password", "private_key", "secret", "token"}
)
"""A key that is one of these, or ends with ``_`` and one of these, holds a secret."""

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL
)


def change(
    before: Mapping[str, Any], after: Mapping[str, Any], *, keys: Iterable[str] = ()
) -> dict[str, Any]:
    """What goes into ``diff`` of a module's result."""
    hidden = tuple(keys)
    return {"before": masked(before, keys=hidden), "after": masked(after, keys=hidden)}


def masked(value: Any, *, keys: Iterable[str] = ()) -> Any:
    """The same value without its secrets: those of known names, of ``keys``, and any PEM key."""
    return _masked(value, SECRET_WORDS | {_normal(key) for key in keys})


def _masked(value: Any, words: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _is_secret(str(key), words) and item else _masked(item, words)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_masked(item, words) for item in value]
    if isinstance(value, str):
        return _PRIVATE_KEY.sub(HIDDEN, value)
    return value


def _is_secret(key: str, words: frozenset[str]) -> bool:
    name = _normal(key)
    return any(name == word or name.endswith(f"_{word}") for word in words)


def _normal(key: str) -> str:
    return key.lower().replace("-", "_")
