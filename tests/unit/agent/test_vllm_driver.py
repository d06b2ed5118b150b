"""What the vLLM driver builds: one process, a Ray cluster, or ranks that meet by themselves."""

from __future__ import annotations

import signal
from dataclasses import replace

import pytest

from llmgw.agent.engines import programs
from llmgw.agent.engines.contract import Place
from llmgw.agent.engines.vllm import Vllm
from llmgw.config import loading
from llmgw.config.tending import VllmSettings
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid, SettingsInvalid

WEIGHTS = "/models/llama"
H100 = "NVIDIA H100 80GB HBM3"


def profile(**fields):
    wanted = {"name": "tp8", "engine": "vllm", "model_path": WEIGHTS, "served_model_name": "llama"}
    return LaunchProfile(**(wanted | fields))


def one_node(**fields):
    made = profile(**({"tp": 2} | fields))
    cards = tuple(range(made.tp))
    return ShardSpec("r", "r.0", made, http_port=20001, gpu_indices=cards)


def rank(number, **fields):
    made = profile(**({"tp": 8, "pp": 2, "nodes": 2, "gpus_per_node": 8} | fields))
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
        hcas=("mlx5_0", "mlx5_1"),
    )


def driver(*, addr="10.0.0.1", mode="ray", **settings):
    made = {"bin": "/opt/vllm/bin/vllm", "ray_bin": "/opt/vllm/bin/ray"} | settings
    return Vllm(
        settings=VllmSettings(launch_mode=mode, **made),
        place=Place(listen_addr=addr, interface="eth0"),
        stop_timeout_s=60.0,
    )


def gpus(count, *, name=H100, capability="9.0"):
    return [
        Gpu(index=i, uuid=f"G{i}", name=name, compute_capability=capability) for i in range(count)
    ]


def test_one_node_is_one_process_without_any_backend():
    [command] = driver().commands(one_node())
    assert (command.name, command.path) == ("vllm", "/opt/vllm/bin/vllm")
    assert command.args == (
        *("serve", WEIGHTS, "--host", "10.0.0.1", "--port", "20001"),
        *("--tensor-parallel-size", "2", "--served-model-name", "llama"),
    )
    assert "RAY_ADDRESS" not in command.env
    assert "VLLM_HOST_IP" not in command.env
    assert not command.wait_for_leader_port


def test_rank_0_with_ray_opens_the_cluster_and_then_serves_in_it():
    ray, server = driver().commands(rank(0))
    assert (ray.name, server.name) == ("ray", "vllm")
    assert ray.args == (
        *("start", "--block", "--node-ip-address", "10.0.0.1"),
        *("--head", "--port", "20002", "--include-dashboard", "false"),
        *("--num-gpus", "8", "--disable-usage-stats"),
    )
    assert ray.wait_for_leader_port
    args = list(server.args)
    assert args[args.index("--distributed-executor-backend") + 1] == "ray"
    assert args[args.index("--pipeline-parallel-size") + 1] == "2"
    assert server.env["RAY_ADDRESS"] == "10.0.0.1:20002"


def test_another_rank_with_ray_only_joins_and_is_held_back_until_the_head_listens():
    [ray] = driver(addr="10.0.0.2").commands(rank(1))
    assert ray.args == (
        *("start", "--block", "--node-ip-address", "10.0.0.2"),
        *("--address", "10.0.0.1:20002", "--num-gpus", "8", "--disable-usage-stats"),
    )
    assert ray.wait_for_leader_port


def test_without_ray_every_rank_serves_the_same_and_knows_its_place():
    [leads] = driver(mode="mp").commands(rank(0))
    [follows] = driver(mode="mp", addr="10.0.0.2").commands(rank(1))
    for number, command in enumerate((leads, follows)):
        args = list(command.args)
        assert args[args.index("--distributed-executor-backend") + 1] == "mp"
        assert args[args.index("--node-rank") + 1] == str(number)
        assert args[args.index("--master-addr") + 1] == "10.0.0.1"
        assert args[args.index("--master-port") + 1] == "20002"
    assert ("--headless" in leads.args, "--headless" in follows.args) == (False, True)
    assert (leads.wait_for_leader_port, follows.wait_for_leader_port) == (False, True)


def test_ray_is_for_several_nodes_and_for_its_own_mode_alone():
    assert [c.name for c in driver().commands(one_node())] == ["vllm"]
    assert [c.name for c in driver(mode="mp").commands(rank(0))] == ["vllm"]


@pytest.mark.parametrize("mode", ["ray", "mp"])
def test_each_rank_goes_by_its_own_address_and_never_by_the_leaders(mode):
    [follows] = driver(mode=mode, addr="10.0.0.2").commands(rank(1))
    assert follows.env["VLLM_HOST_IP"] == "10.0.0.2"


@pytest.mark.parametrize("mode", ["ray", "mp"])
def test_each_process_of_several_ranks_is_bound_to_the_fabric(mode):
    for number in (0, 1):
        for command in driver(mode=mode).commands(rank(number)):
            assert command.env["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
            assert command.env["NCCL_IB_DISABLE"] == "0"
            assert command.env["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"
            assert command.env["GLOO_SOCKET_IFNAME"] == "eth0"
            assert command.env["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"


def test_only_rank_0_serves():
    assert driver().serves_http(one_node())
    assert driver().serves_http(rank(0))
    assert not driver().serves_http(rank(1))


def test_what_a_profile_says_stands_last_and_is_not_said_twice():
    own = ("--max-model-len", "4096", "--gpu-memory-utilization", "0.9")
    [command] = driver().commands(one_node(args=own, context_length=8192))
    assert command.args[-4:] == own
    assert command.args.count("--max-model-len") == 1
    [plain] = driver().commands(one_node(context_length=8192))
    assert plain.args[-2:] == ("--max-model-len", "8192")


def test_a_tool_parser_is_switched_on_where_one_is_named():
    named = one_node(args=("--tool-call-parser", "hermes"), capabilities=("tools",))
    [command] = driver().commands(named)
    assert "--enable-auto-tool-choice" in command.args
    [plain] = driver().commands(one_node())
    assert "--enable-auto-tool-choice" not in plain.args


def test_embeddings_make_it_pool_unless_the_profile_says_how():
    [command] = driver().commands(one_node(capabilities=("embeddings",)))
    assert command.args[-2:] == ("--runner", "pooling")
    own = one_node(capabilities=("embeddings",), args=("--convert", "embed"))
    assert "--runner" not in driver().commands(own)[0].args


def test_nothing_is_told_to_its_makers():
    for command in driver().commands(rank(0)):
        assert command.env["VLLM_NO_USAGE_STATS"] == "1"
        assert command.env["RAY_USAGE_STATS_ENABLED"] == "0"


@pytest.mark.parametrize(
    ("fields", "cards", "words"),
    [
        pytest.param({"tp": 8}, gpus(4), "needs 8 cards", id="cards"),
        pytest.param({}, [], "gpu_class", id="no-cards"),
        pytest.param({"args": ("--host=0.0.0.0",)}, gpus(1), "--host", id="host"),
        pytest.param({"args": ("--tensor_parallel_size", "4")}, gpus(1), "--tensor", id="split"),
        pytest.param({"args": ("--served-model", "x")}, gpus(1), "--served", id="shortened"),
        pytest.param({"args": ("-dp", "2")}, gpus(1), "tp x pp", id="copies"),
        pytest.param({"capabilities": ("tools",)}, gpus(1), "--tool-call-parser", id="tools"),
        pytest.param(
            {"capabilities": ("embeddings", "json")}, gpus(1), "two models", id="embeds-and-chats"
        ),
        pytest.param(
            {"args": ("-q", "fp8")},
            gpus(1, name="A100", capability="8.0"),
            "compute capability 8.9",
            id="fp8",
        ),
    ],
)
def test_what_cannot_run_is_refused_before_it_is_started(fields, cards, words):
    with pytest.raises(Invalid, match=words):
        driver().validate(profile(**fields), cards)


@pytest.mark.parametrize("capability", ["8.9", "9.0", "12.0", ""])
def test_fp8_runs_on_cards_that_can_and_on_those_that_nobody_knows(capability):
    wanted = profile(args=("--quantization=fp8",))
    assert driver().validate(wanted, gpus(1, capability=capability)) is None


def test_an_order_that_does_not_say_where_ranks_meet_is_refused():
    with pytest.raises(Invalid, match="no address or port"):
        driver().commands(replace(rank(0), leader_port=0))
    with pytest.raises(Invalid, match="rank 3 of 2"):
        driver().commands(replace(rank(0), rank=3))


def test_it_may_finish_what_it_has_and_is_killed_then():
    assert [(s.signal, s.wait_s) for s in driver().stop_plan.steps] == [(signal.SIGTERM, 60.0)]


def test_ray_is_taken_from_beside_vllm_before_path(tmp_path):
    for folder in ("env", "path"):
        (tmp_path / folder).mkdir()
        for name in ("vllm", "ray"):
            (tmp_path / folder / name).write_text("")
            (tmp_path / folder / name).chmod(0o755)
    environ = {"PATH": str(tmp_path / "path")}
    settings = VllmSettings()
    [vllm] = programs.vllm_program(settings, environ=environ, installed=tmp_path / "env" / "vllm")
    assert programs.ray_program(settings, vllm=vllm, environ=environ) == (
        str(tmp_path / "env" / "ray"),
    )
    [other] = programs.vllm_program(settings, environ=environ, installed=None)
    assert other == str(tmp_path / "path" / "vllm")
    nowhere = programs.ray_program(settings, vllm="/no/vllm", environ={"PATH": ""})
    assert nowhere == ("ray",)


def test_another_way_of_meeting_is_refused_with_the_settings():
    environ = {"LLMGW_ENGINES__VLLM__LAUNCH_MODE": "mpi"}
    with pytest.raises(SettingsInvalid) as refused:
        loading.load_agent(None, environ=environ, needs_server=False)
    [problem] = refused.value.problems
    assert "launch_mode" in problem.path
    assert "ray" in problem.message
    assert "mp" in problem.message
