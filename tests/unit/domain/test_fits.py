"""Sizes from a model's own configuration, and whether it fits."""

from __future__ import annotations

import pytest

from llmgw.domain import architectures, fits
from llmgw.domain.fits import Cards, Wish
from llmgw.errors import Invalid

LLAMA_70B = {
    "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
    "tie_word_embeddings": False, "max_position_embeddings": 131072,
}  # fmt: skip
LLAMA_8B = {
    **LLAMA_70B, "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
    "intermediate_size": 14336,
}  # fmt: skip
QWEN_7B = {
    "model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064,
    "use_sliding_window": False, "sliding_window": 131072, "max_position_embeddings": 32768,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "num_local_experts": 8, "vocab_size": 32000,
}  # fmt: skip
QWEN_30B_A3B = {
    "model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144,
    "moe_intermediate_size": 768, "num_experts": 128, "vocab_size": 151936,
}  # fmt: skip
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168,
    "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
    "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
    "first_k_dense_replace": 3, "vocab_size": 129280, "kv_lora_rank": 512, "q_lora_rank": 1536,
    "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "quantization_config": {"quant_method": "fp8"},
}  # fmt: skip
GEMMA_9B = {
    "model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "head_dim": 256,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 256000,
}  # fmt: skip

H100 = Cards("h100-80g", memory_bytes=81559 * 1024**2, per_node=8)
L4 = Cards("l4-24g", memory_bytes=23034 * 1024**2, per_node=1)


def found(config, cards, *, engine="vllm", context=8192, requests=1, precision="bf16"):
    wish = Wish(engine, context_tokens=context, requests=requests)
    fit = fits.fits(architectures.read(config), wish, [cards])
    return next(one for one in fit if one.precision.name == precision)


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        pytest.param(LLAMA_8B, 8.03, id="llama 8b"),
        pytest.param(LLAMA_70B, 70.55, id="llama 70b"),
        pytest.param(QWEN_7B, 7.62, id="qwen 7b"),
        pytest.param(MIXTRAL, 46.7, id="mixtral"),
        pytest.param(QWEN_30B_A3B, 30.5, id="qwen 30b a3b"),
        pytest.param(DEEPSEEK_V3, 671.0, id="deepseek v3"),
        pytest.param(GEMMA_9B, 9.24, id="gemma 9b"),
    ],
)
def test_parameters_are_those_that_are_published(config, billions):
    assert architectures.read(config).parameters / 1e9 == pytest.approx(billions, rel=0.005)


def test_seventy_billion_in_16_bits_fit_two_cards_of_80_gb():
    fit = found(LLAMA_70B, H100)
    assert (fit.is_fit, fit.tp, fit.pp, fit.how_many) == (True, 2, 1, 2)
    assert fit.max_context > 30_000


def test_a_token_of_context_takes_what_the_layers_keep():
    model = architectures.read(LLAMA_70B)
    assert model.kv_bytes(1) == 80 * 2 * 8 * 128 * 2
    assert architectures.read(DEEPSEEK_V3).kv_bytes(1) == 61 * (512 + 64) * 2


def test_the_engine_itself_is_charged_once_a_model():
    two = Cards("x", memory_bytes=81559 * 1024**2, per_node=2)
    model, wish = architectures.read(LLAMA_70B), Wish("vllm", context_tokens=8192)
    fit = next(iter(fits.fits(model, wish, [two])))
    room = 2 * two.memory_bytes * 0.9 - fit.weights_bytes - fits.OVERHEAD_BYTES
    assert fit.requests == int(room // model.kv_bytes(8192))


def test_more_requests_or_longer_ones_take_more_cards():
    assert found(LLAMA_70B, H100, requests=8).tp == 4
    assert found(LLAMA_70B, H100, context=131072).tp == 4


def test_what_does_not_fit_says_how_much_is_missing():
    fit = found(LLAMA_70B, L4)
    assert not fit.is_fit
    assert fit.short_bytes > 100 * fits.GIB


def test_a_window_is_all_that_its_layers_keep():
    config = {
        **LLAMA_8B,
        "layer_types": ["sliding_attention", "full_attention"] * 16,
        "sliding_window": 1024,
    }
    per_layer = 2 * 8 * 128 * 2
    kept = architectures.read(config).kv_bytes(10_000)
    assert kept == 16 * per_layer * (10_000 + 1024)


def test_more_cards_than_key_value_heads_keep_copies():
    one, many = found(QWEN_7B, H100), architectures.read(QWEN_7B)
    assert one.tp == 1
    spread = fits.fits(many, Wish("vllm", 32768, requests=400), [H100])
    assert next(iter(spread)).tp == 4, "28 heads are not shared by 8 cards"


def test_a_model_too_large_for_a_node_is_split_by_layers_over_a_fabric():
    fabric = Cards("h100-80g", memory_bytes=H100.memory_bytes, per_node=8, nodes=3)
    fit = found(DEEPSEEK_V3, fabric, precision="fp8")
    assert (fit.is_fit, fit.tp, fit.pp) == (True, 8, 2)
    assert not found(DEEPSEEK_V3, H100, precision="fp8").is_fit


@pytest.mark.parametrize(
    ("engine", "config", "cards", "names"),
    [
        ("vllm", LLAMA_8B, H100, ["bf16", "fp8", "int4"]),
        ("sglang", LLAMA_8B, Cards("a100-80g", 80 * fits.GIB, is_fp8=False), ["bf16", "int4"]),
        ("vllm", DEEPSEEK_V3, H100, ["fp8"]),
        ("llamacpp", LLAMA_8B, H100, ["f16", "q8_0", "q6_k", "q4_k_m"]),
    ],
    ids=["vllm", "no fp8 before ada", "published in fp8", "llama.cpp"],
)
def test_only_precisions_that_the_engine_loads_are_tried(engine, config, cards, names):
    found = fits.precisions(engine, architectures.read(config), cards)
    assert [one.name for one in found] == names


def test_four_bits_take_about_a_quarter():
    model = architectures.read(LLAMA_70B)
    _, _, four = fits.precisions("vllm", model, H100)
    assert fits.weights_bytes(model, four) / 1e9 == pytest.approx(42, rel=0.05)


def test_llama_cpp_takes_one_card_or_the_processor():
    cpu = Cards("", memory_bytes=64 * fits.GIB)
    fit = found(LLAMA_8B, cpu, engine="llamacpp", precision="q8_0")
    assert (fit.is_fit, fit.how_many) == (True, 0)
    assert not found(LLAMA_70B, H100, engine="llamacpp", precision="f16").is_fit


def test_figures_of_the_text_part_count_in_a_model_that_sees():
    seeing = {"model_type": "llava", "text_config": LLAMA_8B, "vision_config": {"hidden_size": 1}}
    assert architectures.read(seeing).parameters == architectures.read(LLAMA_8B).parameters


def test_a_configuration_that_is_none_says_what_it_lacks():
    with pytest.raises(Invalid, match="num_hidden_layers"):
        architectures.read({"model_type": "resnet"})


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({**LLAMA_8B, "num_hidden_layers": 10**9}, "layers, which no model has"),
        ({"text_config": ["llama"]}, "num_hidden_layers"),
    ],
    ids=["endless", "no-part"],
)
def test_a_configuration_that_makes_no_sense_is_refused_at_once(config, why):
    with pytest.raises(Invalid, match=why):
        architectures.read(config)


def test_a_model_without_attention_keeps_nothing_of_its_context():
    recurrent = {**LLAMA_8B, "layer_types": ["linear_attention"] * 32}
    fit = found(recurrent, H100, requests=500)
    assert (fit.is_fit, fit.requests, fit.kv_bytes_per_request) == (True, 500, 0)
    assert not found({**LLAMA_70B, "layer_types": []}, L4).is_fit
