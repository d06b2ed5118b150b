"""``/weights``: downloads on nodes: what is on its way, what is wanted ahead, what may go.

A node decides for each path that may go; one that its shards use, or that no agent fetched, stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from fastapi import APIRouter

from llmgw.api import finding
from llmgw.api.acting import Acting
from llmgw.api.deps import Catalogs, Downloads, Fleet
from llmgw.api.ports import FleetViews, NodeDownloads
from llmgw.api.schemas.weight import (
    CollectIn,
    DownloadsOut,
    FetchIn,
    FetchOrdersOut,
    RemovalsOut,
)
from llmgw.domain import weights
from llmgw.domain.nodes import never_registered
from llmgw.domain.views import NodeView
from llmgw.domain.weight_views import FetchOrderView, FetchView, OrphanView, RemovalView
from llmgw.errors import Conflict, LlmgwError

router = APIRouter(tags=["weights"])


@router.get("/weights")
async def downloads(fleet: Fleet, catalogs: Catalogs, node: str | None = None) -> DownloadsOut:
    """Downloads that no model names, and those under way; ``node`` narrows the lists."""
    left_out = catalogs.left_out_sources()
    # Of which model a download is cannot be told while an entry does not say where its own are.
    orphans = [] if left_out is None else _orphans(fleet, left_out, node_id=node)
    shown = {"orphans": orphans, "fetches": _fetches(fleet, node_id=node)}
    return DownloadsOut.model_validate(shown)


@router.post("/weights/fetch")
async def fetch(fleet: Fleet, downloads: Downloads, act: Acting, wanted: FetchIn) -> FetchOrdersOut:
    """Have nodes fetch a model's weights ahead of its start, or no longer."""
    act.action, act.target = "weights.fetch", wanted.model
    act.after = {"nodes": list(wanted.node_ids), "is_cancelled": wanted.is_cancelled}
    source = _source_of(fleet, wanted.model)
    node_ids = tuple(dict.fromkeys(wanted.node_ids))
    known = {node.node_id for node in fleet.nodes()}
    for node_id in node_ids:
        if node_id not in known:
            raise never_registered(node_id)
    asked = (_fetch_order(downloads, node_id, source, wanted) for node_id in node_ids)
    return FetchOrdersOut.model_validate({"orders": await asyncio.gather(*asked)})


@router.post("/weights/collect")
async def collect(
    fleet: Fleet, catalogs: Catalogs, downloads: Downloads, act: Acting, wanted: CollectIn
) -> RemovalsOut:
    """Ask nodes to remove what no model names; each answers for itself, at most a minute."""
    act.target = wanted.node_id or ""
    left_out = catalogs.left_out_sources()
    if left_out is None:
        raise Conflict(
            "a stored model was left out of the catalog and does not say where its weights are, so "
            "nothing is removed: 'llmgw ctl model list' names it; write it anew or remove it first"
        )
    paths_by_node: dict[str, list[str]] = {}
    for orphan in _orphans(fleet, left_out, node_id=wanted.node_id):
        paths_by_node.setdefault(orphan.node_id, []).append(orphan.path)
    asked = (_removals(downloads, node, paths) for node, paths in paths_by_node.items())
    removals = [removal for answered in await asyncio.gather(*asked) for removal in answered]
    act.after = {"removed": [f"{one.node_id}:{one.path}" for one in removals if one.is_removed]}
    return RemovalsOut.model_validate({"removals": removals})


def _nodes(fleet: FleetViews, *, node_id: str | None) -> list[NodeView]:
    nodes = [node for node in fleet.nodes() if node_id in {None, node.node_id}]
    if node_id is not None and not nodes:
        raise never_registered(node_id)
    return nodes


def _fetches(fleet: FleetViews, *, node_id: str | None) -> list[FetchView]:
    models_by_name: dict[str, list[str]] = {}
    for model in fleet.models():
        if weights.is_remote(model.source):
            models_by_name.setdefault(weights.cache_name(model.source), []).append(model.name)
    return [
        FetchView(node.node_id, tuple(models_by_name.get(fetch.name, ())), fetch)
        for node in _nodes(fleet, node_id=node_id)
        for fetch in node.fetches
    ]


def _source_of(fleet: FleetViews, name: str) -> str:
    """The source of a model; ``Unknown``, or ``Conflict`` for one that no node fetches."""
    found = finding.model(fleet, name)
    if not weights.is_remote(found.source):
        raise Conflict(
            f"no node fetches {found.source}, the source of {found.name}: it is a path, or a name "
            "for the engine"
        )
    return found.source


async def _fetch_order(
    downloads: NodeDownloads, node_id: str, source: str, wanted: FetchIn
) -> FetchOrderView:
    try:
        (deed,) = await downloads.fetch_weights(node_id, [source], is_cancelled=wanted.is_cancelled)
    except LlmgwError as error:
        return FetchOrderView(node_id, is_done=False, detail=error.message)
    return FetchOrderView(node_id, is_done=deed.is_done, detail=deed.detail)


def _orphans(
    fleet: FleetViews, left_out: Sequence[str], *, node_id: str | None
) -> list[OrphanView]:
    nodes = _nodes(fleet, node_id=node_id)
    # All of the catalog, or the weights of a model that is left out would count as nobody's.
    sources = [*(model.source for model in fleet.models()), *left_out]
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
