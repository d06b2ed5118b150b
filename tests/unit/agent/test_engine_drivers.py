"""What the drivers build: programs, flags in their order, environments, and refusals."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from llmgw.agent import stocktaking
from llmgw.agent.engines import checks, environment, programs, registry
from llmgw.agent.engines.contract import Place
from llmgw.agent.engines.llamacpp import LlamaCpp
from llmgw.agent.engines.sim import Sim
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import LlamaCppSettings, SimSettings
from llmgw.domain import engine_options
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid, Unknown

MODEL = "/models/tiny.gguf"


def profile(engine="llamacpp", **fields):
    wanted = {"name": "cpu", "engine": engine, "model_path": MODEL, "served_model_name": "tiny"}
    return LaunchProfile(**(wanted | fields))


def shard(made=None, **fields):
    wanted = {"replica_id": "tiny-1", "shard_id": "tiny-1.0", "http_port": 20001}
    return ShardSpec(profile=made or profile(), **(wanted | fields))


def gpu(index=0, name="NVIDIA H100 80GB HBM3", **fields):
    return Gpu(index=index, uuid=f"GPU-{index}", name=name, memory_total_mib=81559, **fields)


def place(*, addr="10.0.0.5", environ=None, **fields):
    return Place(listen_addr=addr, environ=environ or {"PATH": "/bin"}, **fields)


def llamacpp(**settings):
    wanted = {"bin": "/opt/llama-server"} | settings
    return LlamaCpp(settings=LlamaCppSettings(**wanted), place=place())


def sim(**where):
    return Sim(settings=SimSettings(), place=place(**where), stop_timeout_s=60.0)


def the_args(driver, spec):
    [command] = driver.commands(spec)
    return list(command.args)


def value(args, flag):
    return args[args.index(flag) + 1]


def test_llamacpp_is_one_process_on_the_management_address_only():
    [command] = llamacpp().commands(shard())
    assert (command.name, command.path) == ("llama-server", "/opt/llama-server")
    assert not command.wait_for_leader_port
    assert command.args == (
        *("--model", MODEL, "--host", "10.0.0.5", "--port", "20001", "--metrics", "--jinja"),
        *("--alias", "tiny", "--parallel", "4"),
    )
    assert "0.0.0.0" not in command.args


def test_llamacpp_gets_the_context_of_one_request_times_its_slots():
    args = the_args(llamacpp(parallel=8), shard(profile(context_length=4096)))
    assert value(args, "--ctx-size") == "32768"
    args = the_args(llamacpp(), shard(profile(context_length=4096, args=("-np", "2"))))
    assert value(args, "--ctx-size") == "8192"
    assert "--parallel" not in args


@pytest.mark.parametrize(
    ("own", "absent"),
    [
        pytest.param(("--ctx-size=512",), "--ctx-size", id="context"),
        pytest.param(("-c", "512"), "--ctx-size", id="context-short"),
        pytest.param(("--parallel", "2"), None, id="parallel"),
        pytest.param(("-ngl", "10"), "--n-gpu-layers", id="layers"),
        pytest.param(("--no-jinja",), "--jinja", id="jinja"),
    ],
)
def test_a_flag_of_the_profile_wins_and_stands_last(own, absent):
    spec = shard(profile(context_length=64, args=own), gpu_indices=(0,))
    args = the_args(llamacpp(), spec)
    assert args[-len(own) :] == list(own)
    if absent is None:
        assert args.count("--parallel") == 1
    else:
        assert absent not in args[: -len(own)]


def test_llamacpp_takes_all_layers_only_with_cards():
    assert "--n-gpu-layers" not in the_args(llamacpp(), shard())
    [command] = llamacpp().commands(shard(gpu_indices=(1,)))
    assert value(list(command.args), "--n-gpu-layers") == "999"
    assert command.env["CUDA_VISIBLE_DEVICES"] == "1"


def test_embeddings_are_switched_on_by_the_capability():
    assert "--embeddings" not in the_args(llamacpp(), shard())
    args = the_args(llamacpp(), shard(profile(capabilities=("embeddings",))))
    assert "--embeddings" in args
    assert value(args, "--pooling") == "mean"
    own = profile(capabilities=("embeddings",), args=("--pooling", "cls"))
    assert the_args(llamacpp(), shard(own)).count("--pooling") == 1


def test_llamacpp_loads_the_first_part_of_a_folder(tmp_path):
    for name in ("m-00002-of-00002.gguf", "m-00001-of-00002.GGUF", "a-readme.md"):
        (tmp_path / name).touch()
    args = the_args(llamacpp(), shard(profile(model_path=str(tmp_path))))
    assert value(args, "--model") == str(tmp_path / "m-00001-of-00002.GGUF")


def test_a_folder_without_a_gguf_is_refused(tmp_path):
    with pytest.raises(Invalid, match=r"no \.gguf"):
        llamacpp().commands(shard(profile(model_path=str(tmp_path))))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        pytest.param({"nodes": 2, "gpus_per_node": 1, "pp": 2}, "one node", id="nodes"),
        pytest.param({"tp": 2}, "tensor parallelism", id="tp"),
        pytest.param({"args": ("--host", "0.0.0.0")}, "--host", id="host"),
        pytest.param({"args": ("--port=1",)}, "--port", id="port"),
        pytest.param({"args": ("--parallel", "x")}, "--parallel", id="parallel"),
    ],
)
def test_llamacpp_refuses_what_it_cannot_do(fields, words):
    with pytest.raises(Invalid, match=words):
        llamacpp().validate(profile(**fields), ())


def test_llamacpp_accepts_a_cpu_profile_and_always_serves():
    llamacpp().validate(profile(), ())
    assert llamacpp().serves_http(shard())


def test_llamacpp_is_asked_twice_before_it_is_killed():
    steps = [(step.signal, step.wait_s) for step in llamacpp().stop_plan.steps]
    assert steps == [(signal.SIGTERM, 5.0), (signal.SIGTERM, 2.0)]


@pytest.mark.parametrize(
    ("configured", "begins"),
    [
        pytest.param("/x/llama-server", ("/x/llama-server",), id="path"),
        pytest.param(("/x/python", "-m", "llmgw"), ("/x/python", "-m", "llmgw"), id="words"),
    ],
)
def test_a_program_is_a_path_or_words(configured, begins):
    [command] = llamacpp(bin=configured).commands(shard())
    assert (command.path, *command.args)[: len(begins)] == begins


def test_without_settings_a_llama_server_on_path_is_found_before_our_own(tmp_path):
    found = tmp_path / "llama-server"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    settings = LlamaCppSettings()
    environ = {"PATH": str(tmp_path)}
    assert programs.llamacpp_program(settings, environ=environ, installed=None) == (str(found),)
    own = programs.llamacpp_program(settings, environ={"PATH": ""}, installed=None)
    assert own == (sys.executable, "-m", "llmgw", "llama-server")


def test_an_installed_llama_server_stands_above_path_and_below_the_settings():
    installed = Path("/opt/engines/llamacpp/b1-cpu/llama-server")
    words = programs.llamacpp_program(LlamaCppSettings(), environ={}, installed=installed)
    assert words == (str(installed),)
    named = LlamaCppSettings(bin="/usr/local/bin/mine")
    words = programs.llamacpp_program(named, environ={}, installed=installed)
    assert words == ("/usr/local/bin/mine",)


def test_a_build_that_was_switched_to_is_used_by_the_next_start():
    found = ["/a/llama-server", "/b/llama-server"]
    driver = LlamaCpp(
        settings=LlamaCppSettings(),
        place=place(),
        installed=lambda: Path(found[0]),
    )
    assert driver.commands(shard())[0].path == "/a/llama-server"
    found.pop(0)
    assert driver.commands(shard())[0].path == "/b/llama-server"


def test_the_programs_that_discovery_looks_for_are_what_the_drivers_start():
    engines = registry.build(AgentSettings(), mgmt_addr="10.0.0.5", environ={"PATH": ""})
    words = stocktaking.engine_programs(AgentSettings(), environ={"PATH": ""})
    assert set(words) == set(engines.names)
    for name, begins in words.items():
        [command] = engines.get(name).commands(shard(profile(name)))
        assert (command.path, *command.args)[: len(begins)] == begins


def test_sim_is_our_own_program_on_the_management_address():
    made = profile("sim", args=("--ttft-ms", "5"))
    [command] = sim().commands(shard(made))
    assert command.path == sys.executable
    assert command.args == (
        *("-m", "llmgw", "sim-engine", "--listen", "10.0.0.5:20001", "--model", "tiny"),
        *("--ttft-ms", "5"),
    )
    assert value(the_args(sim(addr="::1"), shard(made)), "--listen") == "[::1]:20001"


def test_sim_workers_meet_the_leader_and_do_not_serve():
    made = profile("sim", nodes=2, gpus_per_node=1, tp=2)
    leader = shard(made, nnodes=2, leader_addr="10.0.0.1", leader_port=20002)
    worker = replace(leader, rank=1)
    [leads], [works] = sim().commands(leader), sim().commands(worker)
    assert (leads.wait_for_leader_port, works.wait_for_leader_port) == (False, True)
    assert (sim().serves_http(leader), sim().serves_http(worker)) == (True, False)
    args = list(works.args)
    assert value(args, "--nnodes") == "2"
    assert value(args, "--node-rank") == "1"
    assert value(args, "--dist-init-addr") == "10.0.0.1:20002"
    assert "--nnodes" not in the_args(sim(), shard(profile("sim")))


def test_a_node_without_fabric_keeps_infiniband_off():
    here = Place(listen_addr="10.0.0.5")
    made = environment.engine_environment(shard(gpu_indices=(0, 1)), place=here)
    assert made == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_IB_DISABLE": "1",
    }


def test_engines_number_cards_as_discovery_does():
    """CUDA puts the fastest card first by itself, the driver's library goes by the bus."""
    here = Place(listen_addr="10.0.0.5", environ={"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})
    made = environment.engine_environment(shard(gpu_indices=(1,)), place=here)
    assert made["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_a_fabric_names_its_adapters_and_the_management_interface():
    spec = shard(hcas=("mlx5_0", "mlx5_1"))
    made = environment.engine_environment(spec, place=place(interface="eth0"))
    assert made["NCCL_IB_DISABLE"] == "0"
    assert made["GLOO_SOCKET_IFNAME"] == "eth0"
    assert made["UCX_NET_DEVICES"] == "mlx5_0:1,mlx5_1:1"


def test_names_of_adapters_and_interfaces_are_exact_and_no_prefixes():
    """NCCL reads ``mlx5_1`` as mlx5_1, mlx5_10, mlx5_11 and so on."""
    spec = shard(hcas=("mlx5_1", "mlx5_2"))
    made = environment.engine_environment(spec, place=place(interface="bond0"))
    assert made["NCCL_IB_HCA"] == "=mlx5_1,mlx5_2"
    assert made["NCCL_SOCKET_IFNAME"] == "=bond0"


def test_without_a_fabric_ucx_stays_on_the_management_interface():
    made = environment.engine_environment(shard(), place=place(interface="eth0"))
    assert made["UCX_NET_DEVICES"] == "eth0"
    assert "NCCL_IB_HCA" not in made


def test_ucx_takes_the_port_that_carries_traffic(tmp_path):
    states = {("mlx5_0", 1): "1: DOWN", ("mlx5_0", 2): "4: ACTIVE", ("mlx5_1", 1): "2: INIT"}
    for (name, port), state in states.items():
        folder = tmp_path / name / "ports" / str(port)
        folder.mkdir(parents=True)
        (folder / "state").write_text(state)
    spec = shard(hcas=("mlx5_0", "mlx5_1", "mlx5_9"))
    made = environment.engine_environment(spec, place=place(ib_root=tmp_path))
    assert made["UCX_NET_DEVICES"] == "mlx5_0:2,mlx5_1:1,mlx5_9:1"


def test_the_interface_is_this_nodes_own_unless_the_order_names_one():
    here = place(interface="eno1")
    own = environment.engine_environment(shard(), place=here)
    ordered = environment.engine_environment(shard(mgmt_interface="eth7"), place=here)
    assert [made["GLOO_SOCKET_IFNAME"] for made in (own, ordered)] == ["eno1", "eth7"]


def test_the_profiles_environment_wins_and_the_agents_own_words_stay_behind():
    inherited = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "7",
        "LLMGW_TLS__KEY": "secret",
        "NOTIFY_SOCKET": "/run/systemd/notify",
        "NCCL_IB_HCA": "mlx5_7",
        "UCX_NET_DEVICES": "mlx5_7:1",
        "RAY_ADDRESS": "10.9.9.9:6379",
    }
    spec = shard(profile(env={"NCCL_IB_DISABLE": "0", "EXTRA": "x"}))
    made = environment.engine_environment(spec, place=place(environ=inherited))
    assert made == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        "EXTRA": "x",
        "NCCL_IB_DISABLE": "0",
        "PATH": "/bin",
    }
    assert list(made) == sorted(made)


@pytest.mark.parametrize(
    ("fields", "cards", "words"),
    [
        pytest.param({"model_path": ""}, 0, "no model", id="no-model"),
        pytest.param({"tp": 0}, 0, "at least 1", id="tp"),
        pytest.param({"nodes": 2, "tp": 16}, 0, "gpus_per_node", id="per-node"),
        pytest.param({"nodes": 2, "gpus_per_node": 8, "tp": 4}, 0, "give 16", id="product"),
        pytest.param({"pp": 2, "tp": 2}, 0, "asks for 4", id="pipeline"),
        pytest.param({"tp": 8}, 4, "needs 8 cards", id="too-few"),
    ],
)
def test_a_shape_that_does_not_add_up_is_refused_by_name(fields, cards, words):
    given = [gpu(index) for index in range(cards)]
    made = profile(**fields)
    with pytest.raises(Invalid, match=words) as refused:
        checks.refuse(made, checks.shape(made, given))
    assert "'cpu'" in refused.value.message


def test_all_that_is_wrong_with_a_profile_is_said_at_once():
    made = profile(model_path="", tp=2, nodes=2, gpus_per_node=4, args=("--port", "1", "-np", "x"))
    cards = [gpu(0), gpu(1, name="Tesla V100")]
    with pytest.raises(Invalid) as refused:
        llamacpp().validate(made, cards)
    for words in (
        "no model",
        "give 8",
        "needs 4 cards",
        "may not mix",
        "one node",
        "no tensor",
        "--port",
        "--parallel",
    ):
        assert words in refused.value.message


def test_one_shard_may_not_mix_gpu_types():
    made = profile(tp=2)
    assert "may not mix GPU types" in checks.shape(made, [gpu(0), gpu(1, name="A100-SXM4-40GB")])[0]
    assert checks.shape(made, [gpu(0), gpu(1)]) == []


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(("--q", "fp8"), "fp8", id="word"),
        pytest.param(("--q=fp8",), "fp8", id="equals"),
        pytest.param(("--q",), None, id="dangling"),
        pytest.param(("--q=a", "--q", "b"), "b", id="last-wins"),
        pytest.param(("--qq=a",), None, id="other"),
    ],
)
def test_a_flags_value_is_found_in_both_forms(args, expected):
    assert engine_options.flag_value(args, "--q") == expected


def test_the_registry_knows_its_engines_and_says_so():
    settings = AgentSettings()
    engines = registry.build(settings, mgmt_addr="10.0.0.5", environ={})
    assert engines.names == ("llamacpp", "sglang", "sim", "vllm")
    assert engines.get("llamacpp").health_path == "/health"
    with pytest.raises(Unknown, match=r"llamacpp, sglang, sim, vllm; did you mean llamacpp\?"):
        engines.get("llama.cpp")
