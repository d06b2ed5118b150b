"""The engines of a fleet: which version is on which nodes, and how installations stand; pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from llmgw.domain.nodes import InstallState
from llmgw.domain.views import NodeView


@dataclass(frozen=True, slots=True)
class EngineTrouble:
    """An engine that is not as it should be on one node."""

    node_id: str
    state: InstallState
    detail: str


@dataclass(frozen=True, slots=True)
class EngineView:
    """One version of an engine, where it is ready, and where it should be."""

    engine: str
    version: str
    node_ids: tuple[str, ...]
    troubles: tuple[EngineTrouble, ...] = ()


def of(nodes: Iterable[NodeView]) -> tuple[EngineView, ...]:
    """Every version of every engine that a node has or should have, in the order of names.

    A node that never looked for engines adds none.
    """
    present: dict[tuple[str, str], list[str]] = defaultdict(list)
    troubles: dict[tuple[str, str], list[EngineTrouble]] = defaultdict(list)
    for node in nodes:
        for engine, version in (node.engine_versions or {}).items():
            present[engine, version].append(node.node_id)
        for one in node.engine_installs:
            if one.state is not InstallState.READY:
                trouble = EngineTrouble(node.node_id, one.state, one.detail)
                troubles[one.engine, one.version].append(trouble)
    return tuple(
        EngineView(*key, node_ids=tuple(present[key]), troubles=tuple(troubles[key]))
        for key in sorted({*present, *troubles})
    )
