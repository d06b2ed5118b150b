"""What the SGLang driver builds: one process a rank, which meet at the first one's port."""

from __future__ import annotations

import pytest

from llmgw.agent.engines.contract import Place
from llmgw.agent.engines.sglang import Sglang
from llmgw.config.tending import SglangSettings
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid

WEIGHTS = "/models/llama"


def profile(**fields):
    wanted = {"name": "tp8", "engine": "sglang", "model_path": WEIGHTS, "served_model_name": "m"}
    return LaunchProfile(**(wanted | fields))


def one_node(**fields):
    return ShardSpec("r", "r.0", profile(**fields), http_port=20001, gpu_indices=(0,))


def rank(number):
    made = profile(tp=8, pp=2, nodes=2, gpus_per_node=8)
    return ShardSpec(
        replica_id="r",
        shard_id=f"r.{number}",
        profile=made,
        http_port=20001,
        rank=number,
        nnodes=2,
        leader_addr="10.0.0.1",
        leader_port=20002,
        gpu_indices=tuple(range(8)),
        hcas=("mlx5_1",),
    )


def driver(*, addr="10.0.0.1"):
    return Sglang(
        settings=SglangSettings(python="/opt/sglang/bin/python"),
        place=Place(listen_addr=addr, interface="eth0"),
        stop_timeout_s=60.0,
    )


def gpus(count, *, capability="9.0"):
    return [
        Gpu(index=i, uuid=f"G{i}", name="H100", compute_capability=capability) for i in range(count)
    ]


def value(command, flag):
    return command.args[command.args.index(flag) + 1]


def test_one_node_is_one_process_that_meets_nobody_and_publishes_figures():
    [command] = driver().commands(one_node())
    assert command.path == "/opt/sglang/bin/python"
    assert command.args == (
        *("-m", "sglang.launch_server", "--model-path", WEIGHTS),
        *("--host", "10.0.0.1", "--port", "20001", "--tensor-parallel-size", "1"),
        *("--served-model-name", "m", "--enable-metrics"),
    )


def test_every_rank_runs_the_same_and_knows_its_place():
    [leads] = driver().commands(rank(0))
    [follows] = driver(addr="10.0.0.2").commands(rank(1))
    assert (value(leads, "--node-rank"), value(follows, "--node-rank")) == ("0", "1")
    for command in (leads, follows):
        assert value(command, "--nnodes") == "2"
        assert value(command, "--dist-init-addr") == "10.0.0.1:20002"
        assert value(command, "--pipeline-parallel-size") == "2"
        assert command.env["NCCL_IB_HCA"] == "=mlx5_1"
    assert value(follows, "--host") == "10.0.0.2"
    assert (leads.wait_for_leader_port, follows.wait_for_leader_port) == (False, True)


def test_only_rank_0_serves():
    assert driver().serves_http(rank(0))
    assert not driver().serves_http(rank(1))
    assert driver().serves_http(one_node())


def test_what_a_profile_says_stands_last_and_is_not_said_twice():
    own = ("--context-length", "512", "--enable-metrics")
    [command] = driver().commands(one_node(args=own, context_length=4096))
    assert command.args[-3:] == own
    assert command.args.count("--enable-metrics") == command.args.count("--context-length") == 1


def test_its_health_is_told_at_once_however_long_a_prompt_takes():
    [command] = driver().commands(one_node())
    assert command.env["SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION"] == "false"


def test_embeddings_are_switched_on_by_the_capability():
    [command] = driver().commands(one_node(capabilities=("embeddings",)))
    assert "--is-embedding" in command.args


@pytest.mark.parametrize(
    ("fields", "cards", "words"),
    [
        pytest.param({}, [], "gpu_class", id="no-cards"),
        pytest.param({"args": ("--tp", "4")}, gpus(1), "--tp-size", id="shortened"),
        pytest.param({"args": ("--dp-size", "2")}, gpus(1), "tp x pp", id="copies"),
        pytest.param({"capabilities": ("tools",)}, gpus(1), "--tool-call-parser", id="tools"),
        pytest.param(
            {"args": ("--quantization", "fp8")}, gpus(1, capability="8.6"), "8.9", id="fp8"
        ),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_started(fields, cards, words):
    with pytest.raises(Invalid, match=words):
        driver().validate(profile(**fields), cards)


def test_copies_that_share_the_cards_are_let_through():
    args = ("--dp-size", "2", "--enable-dp-attention")
    assert driver().validate(profile(tp=2, args=args), gpus(2)) is None
