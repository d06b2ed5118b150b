"""Whether a model fits cards of a class, in which precision and over how many of them; pure.

An estimate from the model's own figures, made before anything is downloaded. What an engine needs
beside weights and context is charged once a model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from llmgw.domain.architectures import Architecture

GIB = 1024**3
_MIB = 1024**2

OVERHEAD_BYTES = 2 * GIB
"""For the engine itself, its graphs and its activations."""

ENGINES = ("vllm", "sglang", "llamacpp")


@dataclass(frozen=True, slots=True)
class Precision:
    """How weights lie in memory; ``needs`` is what the checkpoint must be, if not the original."""

    name: str
    bytes_per_weight: float
    needs: str = ""


@dataclass(frozen=True, slots=True)
class Cards:
    """Cards of one class: how many a node has, over how many nodes of one fabric they can work.

    ``is_fp8`` where they compute in 8 bits. Without a class they are the processor, whose memory
    is that of the node.
    """

    gpu_class: str
    memory_bytes: int
    per_node: int = 1
    nodes: int = 1
    is_fp8: bool = True

    @property
    def is_cpu(self) -> bool:
        """Memory of the node and no card."""
        return not self.gpu_class


@dataclass(frozen=True, slots=True)
class Wish:
    """What the model is to carry: so many requests at once, each of so many tokens."""

    engine: str
    context_tokens: int
    requests: int = 1


@dataclass(frozen=True, slots=True)
class Fit:
    """One precision on one class: the smallest split that fits, or the largest that does not.

    ``requests`` and ``max_context`` are what there is room for; ``short_bytes`` is what is missing
    on each card.
    """

    cards: Cards
    precision: Precision
    weights_bytes: int
    kv_bytes_per_request: int
    tp: int = 1
    pp: int = 1
    is_fit: bool = False
    requests: int = 0
    max_context: int = 0
    short_bytes: int = 0

    @property
    def how_many(self) -> int:
        """Cards in all."""
        return 0 if self.cards.is_cpu else self.tp * self.pp


def precisions(engine: str, model: Architecture, cards: Cards) -> Sequence[Precision]:
    """The precisions in which this engine can load the model on these cards."""
    if engine == "llamacpp":
        return _GGUF
    if model.quantization:
        weight = model.quantization_bits / 8 + (_SCALES if model.quantization_bits < 8 else 0.0)
        return (Precision(model.quantization, weight),)
    eight = (Precision("fp8", 1.0),) if cards.is_fp8 else ()
    return (Precision("bf16", 2.0), *eight, Precision("int4", 0.5 + _SCALES, "AWQ or GPTQ weights"))


def fits(model: Architecture, wish: Wish, classes: Sequence[Cards]) -> Iterator[Fit]:
    """Every precision on every class."""
    for cards in classes:
        for precision in precisions(wish.engine, model, cards):
            yield _best(model, wish, cards, precision)


def weights_bytes(model: Architecture, precision: Precision) -> int:
    """The weights in a precision; embeddings stay in 16 bits where the rest has fewer."""
    if precision.bytes_per_weight >= 2:
        return round(model.parameters * precision.bytes_per_weight)
    inner = model.parameters - model.embedding_parameters
    outer = min(2.0, 2 * precision.bytes_per_weight) if precision in _GGUF else 2.0
    return round(inner * precision.bytes_per_weight + model.embedding_parameters * outer)


_SCALES = 0.0625
"""Scales beside weights of four bits, for groups of 64 or 128."""

_GGUF = (
    Precision("f16", 2.0, "GGUF"),
    Precision("q8_0", 1.0625, "GGUF"),
    Precision("q6_k", 0.8203, "GGUF"),
    Precision("q4_k_m", 0.606, "GGUF"),
)

_SHARES = {"vllm": 0.90, "sglang": 0.88, "llamacpp": 0.95}
"""The share of a card that an engine takes for itself unless told otherwise."""


def _best(model: Architecture, wish: Wish, cards: Cards, precision: Precision) -> Fit:
    tried = [_tried(model, wish, cards, precision, split) for split in _splits(model, wish, cards)]
    return next((fit for fit in tried if fit.is_fit), tried[-1])


def _splits(model: Architecture, wish: Wish, cards: Cards) -> Sequence[tuple[int, int]]:
    """Tensor and pipeline parallel, the fewest cards first; over nodes only by layers."""
    if wish.engine == "llamacpp":
        return [(1, 1)]
    groups = [tp for tp in _powers(cards.per_node) if _divides(model, tp)]
    several = [(groups[-1], pp) for pp in range(2, min(cards.nodes, model.layers) + 1)]
    return [*((tp, 1) for tp in groups), *several]


def _powers(most: int) -> Iterator[int]:
    power = 1
    while power <= most:
        yield power
        power *= 2


def _divides(model: Architecture, tp: int) -> bool:
    """Whether heads can be shared out among a tensor group."""
    return model.heads % tp == 0 and (
        model.is_latent or model.kv_heads % tp == 0 or tp % model.kv_heads == 0
    )


def _tried(
    model: Architecture, wish: Wish, cards: Cards, precision: Precision, split: tuple[int, int]
) -> Fit:
    tp, pp = split
    weights = weights_bytes(model, precision)
    layers = -(-model.layers // pp) / model.layers
    kept = layers if model.is_latent else layers * max(1 / tp, 1 / model.kv_heads)
    budget = cards.memory_bytes * _SHARES[wish.engine]
    room = budget - weights * layers / tp - OVERHEAD_BYTES / (tp * pp)
    per_request = model.kv_bytes(wish.context_tokens) * kept
    # A model without attention keeps nothing of its context: room for one is room for all.
    room_for = room // per_request if per_request else float(wish.requests)
    requests = int(room_for) if room > 0 else 0
    return Fit(
        cards=cards,
        precision=precision,
        weights_bytes=weights,
        kv_bytes_per_request=model.kv_bytes(wish.context_tokens),
        tp=tp,
        pp=pp,
        is_fit=requests >= wish.requests,
        requests=requests,
        max_context=_longest(model, room / kept) if room > 0 else 0,
        short_bytes=max(0, round(wish.requests * per_request - room)),
    )


def _longest(model: Architecture, room_bytes: float) -> int:
    """The longest context of a single request that there is room for."""
    windowed = model.window_tokens * model.window_bytes_per_token
    if model.kv_bytes_per_token:
        tokens = int(max(0.0, room_bytes - windowed) // model.kv_bytes_per_token)
    else:
        tokens = model.max_context or 0
    return min(tokens, model.max_context) if model.max_context else tokens
