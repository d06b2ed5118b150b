"""Which options of engines a profile may set is said where the catalog is read."""

from __future__ import annotations

import pytest

from llmgw.domain import catalog_rules, engine_options
from llmgw.domain.catalog import Model, Profile
from llmgw.errors import CatalogInvalid


def problems(engine, *args, capabilities=()):
    return engine_options.problems(engine, args=args, capabilities=capabilities)


def test_the_catalog_refuses_an_option_that_is_ours_before_any_node_hears_of_it():
    profile = Profile(name="p", engine="vllm", gpu_class="h100-80g", args=("--port", "1"))
    with pytest.raises(CatalogInvalid) as caught:
        catalog_rules.build([Model(name="m", source="/w", profiles=(profile,))])
    [problem] = caught.value.problems
    assert problem.path == "models[0].profiles[0].args"
    assert "--port" in problem.message


@pytest.mark.parametrize("engine", sorted(engine_options.RESERVED))
def test_every_reserved_option_is_found_in_each_way_of_writing_it(engine):
    for flag in engine_options.RESERVED[engine]:
        assert flag in problems(engine, flag, "x")[0]
        assert flag in problems(engine, f"{flag}=x")[0]


@pytest.mark.parametrize(
    ("engine", "args"),
    [
        ("vllm", ("--gpu-memory-utilization", "0.9", "--enable-prefix-caching")),
        ("vllm", ("--model-impl", "auto", "--max-num-seqs", "64")),
        ("sglang", ("--mem-fraction-static", "0.9", "--model-impl", "auto")),
        ("sglang", ("--tool-call-parser", "qwen")),
        ("llamacpp", ("--flash-attn", "on", "-ctk", "q8_0", "--no-mmap")),
        ("sim", ("--ttft-ms", "5")),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_what_is_nobodys_but_the_operators_is_let_through(engine, args):
    assert problems(engine, *args) == []


def test_all_that_is_wrong_is_said_at_once():
    found = problems("vllm", "--port", "1", "-dp", "2", capabilities=("tools", "embeddings"))
    assert len(found) == 4


@pytest.mark.parametrize(
    ("engine", "args", "ports"),
    [
        ("vllm", ("--enable-dp-attention",), 1),
        ("sglang", (), 1),
        ("sglang", ("--enable-dp-attention",), 22),
        ("sglang", ("--enable-dp-attention", "--dp-size", "4"), 14),
        ("sglang", ("--enable-dp-attention", "--data-parallel-size=12"), 18),
        ("sglang", ("--attn-dp-size", "2"), 14),
        ("sglang", ("--enable-dp-attention", "--dp-size", "many"), 22),
    ],
)
def test_split_attention_of_sglang_takes_ports_after_the_one_at_which_ranks_meet(
    engine, args, ports
):
    assert engine_options.meeting_ports(engine, args=args, tp=16) == ports
