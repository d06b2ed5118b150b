# Copyright: llmgw contributors
# SPDX-License-Identifier: Apache-2.0
"""The test that says whether a word can name a node."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.llmgw.fleet.plugins.module_utils import _names


def node_name(name: object) -> bool:
    """Whether VM, hostname, node and certificate may all be called so."""
    return not _names.node_name_problem(name)


class TestModule:
    """Tests on names."""

    def tests(self) -> dict[str, Callable[[object], bool]]:
        """Their names in templates."""
        return {"node_name": node_name}
