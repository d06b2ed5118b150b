"""``/nodes``: the machines, what they have and what of that is promised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query

from llmgw.api.acting import Acting
from llmgw.api.deps import Flags, Fleet
from llmgw.api.schemas.node import NodeBanIn, NodeOut, NodesOut, NodeStateIn
from llmgw.domain.nodes import NodeTarget, never_registered
from llmgw.domain.views import NodeView

router = APIRouter(tags=["nodes"])

State = Literal["ready", "cordoned", "draining", "unreachable", "lost", "banned"]
_VERBS = {
    NodeTarget.CORDONED: "cordon",
    NodeTarget.DRAINING: "drain",
    NodeTarget.READY: "uncordon",
}
_LABEL = Query(pattern=r"^[^=]+=.*$", description="KEY=VALUE")


@router.get("/nodes")
async def nodes(
    fleet: Fleet,
    state: State | None = None,
    label: Annotated[str | None, _LABEL] = None,
    fabric: str | None = None,
    gpu_class: str | None = None,
    engine: str | None = None,
) -> NodesOut:
    """Every known node, lost ones too; each filter narrows the list."""
    found = [
        n
        for n in fleet.nodes()
        if (state is None or n.state == state)
        and (label is None or _has_label(n, label))
        and (fabric is None or any(f.name == fabric for f in n.fabrics))
        and (gpu_class is None or any(g.gpu_class == gpu_class for g in n.gpus))
        and (engine is None or engine in (n.engine_versions or {}))
    ]
    return NodesOut.model_validate({"nodes": found})


@router.get("/nodes/{node_id}")
async def node(fleet: Fleet, node_id: str) -> NodeOut:
    """One node."""
    for view in fleet.nodes():
        if view.node_id == node_id:
            return NodeOut.model_validate(view)
    raise never_registered(node_id)


@router.post("/nodes/{node_id}/state")
async def state(
    flags: Flags, fleet: Fleet, act: Acting, node_id: str, wanted: NodeStateIn
) -> NodeOut:
    """Keep new replicas away (cordoned), move all of them off (draining), or neither (ready)."""
    act.action = f"node.{_VERBS[wanted.target]}"
    act.before = next((_word(n) for n in fleet.nodes() if n.node_id == node_id), None)
    act.after = {"reason": wanted.reason} if wanted.reason else None
    view = await flags.set_node_state(
        node_id, target=wanted.target, reason=wanted.reason, actor=act.actor.name
    )
    return NodeOut.model_validate(view)


@router.post("/nodes/{node_id}/ban")
async def ban(flags: Flags, act: Acting, node_id: str, wanted: NodeBanIn) -> NodeOut:
    """Let the agent of a node in no more, whatever certificate it shows, or again."""
    act.action = "node.ban" if wanted.is_banned else "node.unban"
    view = await flags.ban_node(node_id, is_banned=wanted.is_banned)
    return NodeOut.model_validate(view)


@router.delete("/nodes/{node_id}", status_code=204)
async def forget(flags: Flags, node_id: str) -> None:
    """Forget a node that is gone; one that is connected or holds replicas stays."""
    await flags.forget_node(node_id)


def _word(node: NodeView) -> Mapping[str, object]:
    """What was said of a node last."""
    return {"target": node.target, "reason": node.flag_reason, "actor": node.flag_actor}


def _has_label(node: NodeView, label: str) -> bool:
    key, _, value = label.partition("=")
    return node.labels.get(key) == value
