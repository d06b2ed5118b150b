"""Writes a model of random weights that any llama.cpp loads: 470 KB, byte vocabulary, gibberish.

It loads in a fifth of a second and says the same to the same prompt, so tests of real engines need
no download.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

LAYERS, WIDTH, HEADS, FEED, CONTEXT = 2, 64, 4, 128, 4096
_TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)


TOOLS_TEMPLATE = (
    "{% for tool in tools or [] %}tool: {{ tool | tojson }}\n{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content or '' }}"
    '{% for c in m.tool_calls or [] %}{"name": "{{ c.function.name }}", "parameters": '
    "{{ c.function.arguments if c.function.arguments is string"
    " else c.function.arguments | tojson }}}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant:{% endif %}"
)
"""For a model that knows tools: llama.cpp learns from it how a call is written."""

CALLS_AT_ONCE = [[2, 100], [3 + ord("{"), 30]]
"""The ``logit_bias`` with which gibberish begins a call as soon as it may, and ends after it."""


def write(path: Path, *, context_tokens: int = CONTEXT, template: str = _TEMPLATE) -> Path:
    """Write the model file and return its path."""
    out = gguf.GGUFWriter(str(path), "llama")
    n_tokens = _vocabulary(out, template)
    _shape(out, n_tokens, context_tokens=context_tokens)
    _tensors(out, n_tokens)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path


def _vocabulary(out: gguf.GGUFWriter, template: str) -> int:
    special = [b"<unk>", b"<s>", b"</s>"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    tokens = [*special, *(b"<0x%02X>" % i for i in range(256)), "\u2581".encode()]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL]
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens)
    out.add_token_scores([0.0] * len(tokens))
    out.add_token_types(kinds)
    out.add_unk_token_id(0)
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    out.add_chat_template(template)
    return len(tokens)


def _shape(out: gguf.GGUFWriter, n_tokens: int, *, context_tokens: int) -> None:
    out.add_name("tiny-random")
    out.add_file_type(0)
    out.add_vocab_size(n_tokens)
    out.add_context_length(context_tokens)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(FEED)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_dimension_count(WIDTH // HEADS)


def _tensors(out: gguf.GGUFWriter, n_tokens: int) -> None:
    draw = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return (draw.standard_normal(shape) * 0.2).astype(np.float32)

    ones = np.ones(WIDTH, np.float32)
    out.add_tensor("token_embd.weight", weights(n_tokens, WIDTH))
    out.add_tensor("output_norm.weight", ones)
    out.add_tensor("output.weight", weights(n_tokens, WIDTH))
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            out.add_tensor(f"{block}.{norm}.weight", ones)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            out.add_tensor(f"{block}.{part}.weight", weights(WIDTH, WIDTH))
        for part in ("ffn_gate", "ffn_up"):
            out.add_tensor(f"{block}.{part}.weight", weights(FEED, WIDTH))
        out.add_tensor(f"{block}.ffn_down.weight", weights(WIDTH, FEED))
