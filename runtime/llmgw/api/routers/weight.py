"""``/weights``: downloads that no model of the catalog names, and their removal.

A node decides for each path; one that its shards use, or that no agent fetched, stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from fastapi import APIRouter

from llmgw.api.acting import Acting
from llmgw.api.deps import Downloads, Fleet
from llmgw.api.ports import FleetViews, NodeDownloads
from llmgw.api.schemas.weight import CollectIn, OrphansOut, RemovalsOut
from llmgw.domain import weights
from llmgw.domain.nodes import never_registered
from llmgw.domain.views import NodeView, OrphanView, RemovalView
from llmgw.errors import LlmgwError

router = APIRouter(tags=["weights"])


@router.get("/weights")
async def orphans(fleet: Fleet, node: str | None = None) -> OrphansOut:
    """Every download that no model names; ``node`` narrows the list."""
    return OrphansOut.model_validate({"orphans": _orphans(fleet, node_id=node)})


@router.post("/weights/collect")
async def collect(
    fleet: Fleet, downloads: Downloads, act: Acting, wanted: CollectIn
) -> RemovalsOut:
    """Ask nodes to remove what no model names; each answers for itself, at most a minute."""
    act.target = wanted.node_id or ""
    paths_by_node: dict[str, list[str]] = {}
    for orphan in _orphans(fleet, node_id=wanted.node_id):
        paths_by_node.setdefault(orphan.node_id, []).append(orphan.path)
    asked = (_removals(downloads, node, paths) for node, paths in paths_by_node.items())
    removals = [removal for answered in await asyncio.gather(*asked) for removal in answered]
    act.after = {"removed": [f"{one.node_id}:{one.path}" for one in removals if one.is_removed]}
    return RemovalsOut.model_validate({"removals": removals})


def _orphans(fleet: FleetViews, *, node_id: str | None) -> list[OrphanView]:
    nodes = [node for node in fleet.nodes() if node_id in {None, node.node_id}]
    if node_id is not None and not nodes:
        raise never_registered(node_id)
    # All of the catalog, or the weights of a model that is left out would count as nobody's.
    sources = [model.source for model in fleet.models()]
    return [orphan for node in nodes for orphan in _orphans_of(node, sources)]


def _orphans_of(node: NodeView, sources: Sequence[str]) -> Iterator[OrphanView]:
    found = {one.path: one for one in node.weights}
    for path in weights.orphans(found, sources):
        one = found[path]
        yield OrphanView(node.node_id, path, one.size_bytes, is_shared=one.is_shared)


async def _removals(
    downloads: NodeDownloads, node_id: str, paths: Sequence[str]
) -> list[RemovalView]:
    try:
        deeds = await downloads.remove_weights(node_id, paths)
    except LlmgwError as error:
        return [
            RemovalView(node_id, path, is_removed=False, detail=error.message) for path in paths
        ]
    return [
        RemovalView(node_id, deed.subject, is_removed=deed.is_done, detail=deed.detail)
        for deed in deeds
    ]
