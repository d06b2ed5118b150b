"""A catalog for a simulated fleet where nobody names one: models that suit its hardware; pure.

For each class of card one model over whole nodes, one on a quarter of a node's cards, and a few
that are loaded when they are asked for; over a fabric one that takes two nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.domain.nodes import NodeFacts

_WHOLE_SHARE, _QUARTER_SHARE, _PAIRS_SHARE, _CPU_SHARE = 0.35, 0.15, 0.04, 0.1
"""Replicas for each node of the class."""
_ON_DEMAND = 4
_IDLE_TIMEOUT_S = 1200.0


def for_nodes(everybody: Iterable[NodeFacts]) -> Sequence[Model]:
    """The models, in the order of the classes' names."""
    machines = Counter(_kind(facts) for facts in everybody)
    return [
        model
        for (gpu_class, cards, has_fabric), nodes in sorted(machines.items())
        for model in (
            _on_cards(gpu_class, cards=cards, nodes=nodes, has_fabric=has_fabric)
            if gpu_class
            else [_resident("small-cpu", _profile("llamacpp"), nodes * _CPU_SHARE)]
        )
    ]


def _kind(facts: NodeFacts) -> tuple[str, int, bool]:
    gpus = facts.gpus
    return (gpus[0].gpu_class if gpus else "", len(gpus), bool(facts.fabrics))


def _on_cards(gpu_class: str, *, cards: int, nodes: int, has_fabric: bool) -> list[Model]:
    few = max(1, cards // 4)
    models = [
        _resident(
            f"large-{gpu_class}", _profile("vllm", gpu_class, tp=cards), nodes * _WHOLE_SHARE
        ),
        _resident(
            f"small-{gpu_class}", _profile("vllm", gpu_class, tp=few), nodes * _QUARTER_SHARE
        ),
    ]
    if has_fabric and nodes > 1:
        pair = Profile(
            name="pair", engine="vllm", gpu_class=gpu_class, tp=cards, pp=2, nodes=2,
            gpus_per_node=cards,
        )  # fmt: skip
        models.append(_resident(f"giant-{gpu_class}", pair, nodes * _PAIRS_SHARE))
    return models + [
        Model(
            name=f"asked-{gpu_class}-{number + 1}",
            source="hf:made-up/model",
            scaling=Scaling(min=0, max=1, idle_timeout_s=_IDLE_TIMEOUT_S),
            profiles=(_profile("vllm", gpu_class, tp=max(1, cards // 2)),),
        )
        for number in range(_ON_DEMAND)
    ]


def _resident(name: str, profile: Profile, many: float) -> Model:
    count = max(1, int(many))
    return Model(
        name=name,
        source="hf:made-up/model",
        scaling=Scaling(min=count, max=count),
        profiles=(profile,),
    )


def _profile(engine: str, gpu_class: str = "", *, tp: int = 1) -> Profile:
    return Profile(name="single", engine=engine, gpu_class=gpu_class, tp=tp)
