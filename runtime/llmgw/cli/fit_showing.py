"""What cards a fleet has for a model, and a table of what would fit; pure but for the screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llmgw.cli import figures
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain import catalog_rules
from llmgw.domain.architectures import Architecture
from llmgw.domain.fits import Cards, Fit, Wish
from llmgw.domain.views import GpuUse, NodeView

_MIB = 1024 * 1024
_CPU = "cpu"

_COLUMNS = (
    Column("CLASS", is_whole=True),
    Column("PRECISION", is_whole=True),
    Column("FITS", is_state=True),
    Column("CARDS", is_whole=True),
    Column("WEIGHTS", is_whole=True),
    Column("REQUESTS", is_whole=True),
    Column("LONGEST", is_whole=True),
    Column("ROOM NOW", is_whole=True),
    Column("REMARKS"),
)


def classes(nodes: Sequence[NodeView], *, engine: str) -> Sequence[Cards]:
    """The classes of cards of a fleet; for llama.cpp the processors' memory too."""
    names = sorted({gpu.gpu_class for node in nodes for gpu in node.gpus})
    found = [cards for name in names if (cards := _of_class(name, nodes)) is not None]
    memory = max((node.memory_available_mb or 0 for node in nodes), default=0)
    if engine == "llamacpp" and memory:
        found.append(Cards("", memory_bytes=memory * _MIB))
    return found


def supposed(gpu_class: str, *, per_node: int, gibibytes: int) -> Cards:
    """Cards that no node has yet, by the name of their class; drivers keep some of the memory."""
    kept = 0.97
    memory = round(gibibytes * 1024 * _MIB * kept)
    return Cards(gpu_class, memory_bytes=memory, per_node=per_node, is_fp8=_is_fp8(gpu_class))


def document(
    model: Architecture, wish: Wish, fits: Sequence[Fit], *, nodes: Sequence[NodeView] | None
) -> Mapping[str, Any]:
    """All of it for a program."""
    return {
        "engine": wish.engine,
        "context_tokens": wish.context_tokens,
        "requests": wish.requests,
        "parameters": model.parameters,
        "max_context": model.max_context,
        "quantization": model.quantization or None,
        "is_fit": any(fit.is_fit for fit in fits),
        "fits": [
            {
                "gpu_class": fit.cards.gpu_class,
                "precision": fit.precision.name,
                "needs": fit.precision.needs,
                "is_fit": fit.is_fit,
                "tp": fit.tp,
                "pp": fit.pp,
                "cards": fit.how_many,
                "weights_bytes": fit.weights_bytes,
                "kv_bytes_per_request": fit.kv_bytes_per_request,
                "requests": fit.requests,
                "max_context": fit.max_context,
                "short_bytes": fit.short_bytes,
                "nodes_with_room": None if nodes is None else _with_room(fit, wish, nodes),
            }
            for fit in fits
        ],
    }


def table(
    screen: Screen,
    model: Architecture,
    wish: Wish,
    fits: Sequence[Fit],
    *,
    nodes: Sequence[NodeView] | None,
) -> None:
    """All of it for a person."""
    longest = f", at most {model.max_context} tokens" if model.max_context else ""
    published = f", published in {model.quantization}" if model.quantization else ""
    screen.facts(
        [
            ("MODEL", f"{model.parameters / 1e9:.1f} billion weights{published}{longest}"),
            ("FOR", f"{wish.requests} request(s) of {wish.context_tokens} tokens, {wish.engine}"),
        ]
    )
    screen.line()
    screen.table(_COLUMNS, [_row(fit, wish, nodes) for fit in fits])
    best = next((fit for fit in sorted(fits, key=lambda f: f.how_many) if fit.is_fit), None)
    if best is not None:
        screen.line()
        screen.line(f"profile: {_profile(best, wish)}")


def _row(fit: Fit, wish: Wish, nodes: Sequence[NodeView] | None) -> Row:
    room = None if nodes is None else _with_room(fit, wish, nodes)
    remarks = [f"needs {fit.precision.needs}"] if fit.precision.needs else []
    if not fit.is_fit:
        remarks.insert(0, f"{figures.size(fit.short_bytes)} a card are missing")
    return Row(
        (
            fit.cards.gpu_class or _CPU,
            fit.precision.name,
            "yes" if fit.is_fit else "no",
            _split(fit),
            figures.size(fit.weights_bytes),
            str(fit.requests),
            str(fit.max_context),
            None if room is None else f"{room} node(s)",
            "; ".join(remarks),
        )
    )


def _split(fit: Fit) -> str:
    if fit.cards.is_cpu:
        return "none"
    over = f" over {fit.pp} nodes" if fit.pp > 1 else ""
    return f"{fit.how_many} (tp {fit.tp}, pp {fit.pp}){over}" if fit.how_many > 1 else "1"


def _profile(fit: Fit, wish: Wish) -> str:
    said = [f"name: {fit.cards.gpu_class or _CPU}", f"engine: {wish.engine}"]
    if not fit.cards.is_cpu:
        said += [f"gpu_class: {fit.cards.gpu_class}", f"tp: {fit.tp}"]
    if fit.pp > 1:
        said += [f"pp: {fit.pp}", f"nodes: {fit.pp}", f"gpus_per_node: {fit.tp}"]
    return "{" + ", ".join(said) + "}"


def _with_room(fit: Fit, wish: Wish, nodes: Sequence[NodeView]) -> int:
    """Nodes that could take a shard of it now."""
    return sum(_has_room(fit, wish, node) for node in nodes) if fit.is_fit else 0


def _has_room(fit: Fit, wish: Wish, node: NodeView) -> bool:
    has_engine = node.engine_versions is None or wish.engine in node.engine_versions
    if node.state != "ready" or not has_engine:
        return False
    if fit.cards.is_cpu:
        return (node.memory_available_mb or 0) * _MIB >= fit.weights_bytes
    return _free(node)[fit.cards.gpu_class] >= fit.tp


def _free(node: NodeView) -> Counter[str]:
    return Counter(gpu.gpu_class for gpu in node.gpus if gpu.use is GpuUse.FREE)


def _of_class(name: str, nodes: Sequence[NodeView]) -> Cards | None:
    """Cards of one class in the fleet; nothing where none of them tells its memory."""
    own = [(node, [gpu for gpu in node.gpus if gpu.gpu_class == name]) for node in nodes]
    told = [g.memory_total_mib for _, gpus in own for g in gpus if g.memory_total_mib is not None]
    if not told:
        return None
    per_node = max(len(gpus) for _, gpus in own)
    whole = [node for node, gpus in own if len(gpus) == per_node]
    return Cards(
        name,
        memory_bytes=min(told) * _MIB,
        per_node=per_node,
        nodes=max(Counter(_fabrics(whole)).values(), default=1),
        is_fp8=_is_fp8(name),
    )


def _fabrics(nodes: Sequence[NodeView]) -> Iterator[str]:
    for node in nodes:
        yield from (fabric.name for fabric in node.fabrics if fabric.hcas)


def _is_fp8(gpu_class: str) -> bool:
    return catalog_rules.BELOW_FP8.fullmatch(gpu_class.partition("-")[0]) is None
