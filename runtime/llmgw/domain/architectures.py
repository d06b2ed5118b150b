"""What a model's own ``config.json`` says of its size: weights, and what a token of context takes.

Field names are those of the Transformers library, whose configurations the hub publishes. Only the
part that reads and writes text is counted; towers for pictures and sound come on top.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from llmgw.errors import Invalid

_UNGATED = frozenset({"bloom", "falcon", "gpt2", "gpt_neox", "mpt", "opt", "phi", "starcoder2"})
"""Types whose feed-forward part has two matrices; all others have three."""

_TIED = ("gemma", "gpt2", "opt", "phi3small", "bloom", "falcon")
"""Types whose input and output embeddings are one unless they say otherwise."""

_MOST_LAYERS = 10_000

_KV_BYTES = 2
"""Keys and values are kept in 16 bits unless an engine is told otherwise."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """The figures that sizes follow from.

    ``kv_bytes_per_token`` is that of all layers that see the whole context; ``window_bytes`` of
    those that see ``window_tokens`` at most. ``is_latent`` says that all cards of a tensor group
    keep all of it.
    """

    parameters: int
    embedding_parameters: int
    layers: int
    heads: int
    kv_heads: int
    kv_bytes_per_token: int
    window_bytes_per_token: int = 0
    window_tokens: int = 0
    is_latent: bool = False
    max_context: int | None = None
    quantization: str = ""
    """How the published weights are quantized; empty where they are in 16 bits."""
    quantization_bits: int = 16

    def kv_bytes(self, context_tokens: int) -> int:
        """What one request of this context takes, over all cards."""
        windowed = min(context_tokens, self.window_tokens) * self.window_bytes_per_token
        return context_tokens * self.kv_bytes_per_token + windowed


def read(config: Mapping[str, Any]) -> Architecture:
    """The architecture of a ``config.json``; ``Invalid`` says which figure is missing."""
    part = config.get("text_config") or config.get("llm_config")
    text = {**config, **part} if isinstance(part, Mapping) else config
    layers = _whole(text, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if layers > _MOST_LAYERS:
        raise Invalid(f"the configuration has {layers} layers, which no model has")
    hidden = _whole(text, "hidden_size", "n_embd", "d_model")
    heads = _whole(text, "num_attention_heads", "n_head", "n_heads")
    kv_heads = _maybe(text, "num_key_value_heads", "num_kv_heads", "n_head_kv") or heads
    head_dim = _maybe(text, "head_dim") or hidden // heads
    vocabulary = _whole(text, "vocab_size")
    kind = str(text.get("model_type", ""))
    is_tied = text.get("tie_word_embeddings", kind.startswith(_TIED))
    embeddings = vocabulary * hidden * (1 if is_tied else 2)
    latent = _maybe(text, "kv_lora_rank")
    attention = (
        _latent_attention(text, hidden=hidden, heads=heads, latent=latent)
        if latent
        else hidden * head_dim * (2 * heads + 2 * kv_heads)
    )
    feeding = sum(_feeding(text, i, hidden=hidden, kind=kind) for i in range(layers))
    per_layer = _latent_bytes(text, latent) if latent else 2 * kv_heads * head_dim * _KV_BYTES
    whole, windowed = _layers_by_reach(text, layers)
    quantization, bits = _quantization(config)
    return Architecture(
        parameters=embeddings + layers * attention + feeding,
        embedding_parameters=embeddings,
        layers=layers,
        heads=heads,
        kv_heads=kv_heads,
        kv_bytes_per_token=whole * per_layer,
        window_bytes_per_token=windowed * per_layer,
        window_tokens=_maybe(text, "sliding_window") or 0,
        is_latent=latent is not None,
        max_context=_maybe(text, "max_position_embeddings", "n_positions", "max_seq_len"),
        quantization=quantization,
        quantization_bits=bits,
    )


def _latent_attention(text: Mapping[str, Any], *, hidden: int, heads: int, latent: int) -> int:
    """The matrices of multi-head latent attention, as DeepSeek-V2 has it."""
    nope, rope = _whole(text, "qk_nope_head_dim"), _whole(text, "qk_rope_head_dim")
    value = _whole(text, "v_head_dim")
    query_rank = _maybe(text, "q_lora_rank")
    query = heads * (nope + rope)
    asked = hidden * query if query_rank is None else query_rank * (hidden + query)
    kept = hidden * (latent + rope) + latent * heads * (nope + value)
    return asked + kept + heads * value * hidden


def _latent_bytes(text: Mapping[str, Any], latent: int) -> int:
    return (latent + _whole(text, "qk_rope_head_dim")) * _KV_BYTES


def _feeding(text: Mapping[str, Any], layer: int, *, hidden: int, kind: str) -> int:
    """The feed-forward part of one layer: dense, or experts with their router."""
    matrices = 2 if kind in _UNGATED else 3
    dense = _maybe(text, "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim") or 4 * hidden
    experts = _maybe(text, "n_routed_experts", "num_local_experts", "num_experts")
    if not experts or _is_dense(text, layer):
        return matrices * hidden * dense
    each = _maybe(text, "moe_intermediate_size") or dense
    shared = _maybe(text, "shared_expert_intermediate_size") or each * (
        _maybe(text, "n_shared_experts") or 0
    )
    return hidden * experts + matrices * hidden * (experts * each + shared)


def _is_dense(text: Mapping[str, Any], layer: int) -> bool:
    step = _maybe(text, "decoder_sparse_step") or 1
    return (
        layer < (_maybe(text, "first_k_dense_replace") or 0)
        or layer in (text.get("mlp_only_layers") or ())
        or (layer + 1) % step != 0
    )


def _layers_by_reach(text: Mapping[str, Any], layers: int) -> tuple[int, int]:
    """How many layers keep the whole context, and how many a window of it; others keep nothing."""
    kinds = text.get("layer_types")
    if isinstance(kinds, list):
        return kinds.count("full_attention"), kinds.count("sliding_attention")
    window, every = _maybe(text, "sliding_window"), _maybe(text, "sliding_window_pattern")
    if window and every:
        return layers // every, layers - layers // every
    is_used = text.get("use_sliding_window", str(text.get("model_type")) == "mistral")
    return (0, layers) if window and is_used else (layers, 0)


def _quantization(config: Mapping[str, Any]) -> tuple[str, int]:
    told = config.get("quantization_config")
    if not isinstance(told, Mapping):
        return "", 16
    method = str(told.get("quant_method", "quantized"))
    bits = told.get("bits", told.get("w_bit"))
    if not isinstance(bits, int):
        bits = 4 if "4" in method else 8
    return method, bits


def _whole(text: Mapping[str, Any], *names: str) -> int:
    found = _maybe(text, *names)
    if found is None:
        raise Invalid(
            f"the configuration has no {names[0]}, so its size cannot be told: is it the "
            "config.json of a language model?"
        )
    return found


def _maybe(text: Mapping[str, Any], *names: str) -> int | None:
    for name in names:
        value = text.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None
