# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The filter that hides secrets in whatever is about to be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.llmgw.fleet.plugins.module_utils import _diff


def mask(value: Any, keys: str | Iterable[str] = ()) -> Any:
    """The value with its secrets hidden."""
    return _diff.masked(value, keys=[keys] if isinstance(keys, str) else keys)


class FilterModule:
    """The filter that hides secrets."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Its name in templates."""
        return {"mask": mask}
