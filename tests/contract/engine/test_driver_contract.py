"""What orders and supervisor rely on in every driver: one suite for all that the agent has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from llmgw.agent.engines import option_check, registry
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, LlamaCppSettings, SglangSettings, VllmSettings
from llmgw.domain.catalog import CPU_ENGINES, ENGINES
from llmgw.domain.nodes import Gpu
from llmgw.domain.replicas import LaunchProfile, ShardSpec
from llmgw.errors import Invalid
from llmgw.gateway import metric_names

ADDR = "10.0.0.5"
CARDS = tuple(Gpu(index=i, uuid=f"G{i}", name="H100", compute_capability="9.0") for i in range(4))
SETTINGS = AgentSettings(
    mgmt_interface="eth0",
    engines=EnginesSettings(
        llamacpp=LlamaCppSettings(bin="/opt/llama-server"),
        sglang=SglangSettings(python="/opt/sglang/bin/python"),
        vllm=VllmSettings(bin="/opt/vllm/bin/vllm", ray_bin="/opt/vllm/bin/ray"),
    ),
)
DRIVERS = {
    driver.name: driver
    for driver in registry.drivers(
        SETTINGS, mgmt_addr=ADDR, environ={"PATH": "/bin", "LLMGW_TLS__KEY": "x"}
    )
}
every_driver = pytest.mark.parametrize("driver", DRIVERS.values(), ids=lambda one: one.name)


def profile(driver, **fields):
    made = {"name": "p", "engine": driver.name, "model_path": "/m", "served_model_name": "served"}
    return LaunchProfile(**(made | fields))


def shard(driver, **fields):
    wanted = {"replica_id": "r", "shard_id": "r.0", "http_port": 20001, "gpu_indices": (2,)}
    return ShardSpec(profile=fields.pop("profile", profile(driver)), **(wanted | fields))


def ranks(driver):
    """Two ranks, for the engines that run on several nodes."""
    made = profile(driver, tp=4, nodes=2, gpus_per_node=2)
    first = shard(
        driver,
        profile=made,
        nnodes=2,
        leader_addr=ADDR,
        leader_port=20002,
        gpu_indices=(0, 1),
        hcas=("mlx5_0",),
    )
    return () if driver.name == "llamacpp" else (first, replace(first, rank=1, shard_id="r.1"))


def test_every_engine_of_the_catalog_has_a_driver():
    assert sorted(DRIVERS) == sorted(ENGINES)


@every_driver
def test_its_figures_are_those_that_the_gateway_reads(driver):
    names = metric_names.of(driver.name)
    assert driver.request_metrics == (names.running[0], names.waiting[0])
    assert set(driver.work_metrics) == set(names.progress)


@every_driver
def test_it_listens_on_the_management_address_alone_and_serves_under_the_given_name(driver):
    for spec in (shard(driver), *ranks(driver)):
        for command in driver.commands(spec):
            assert "0.0.0.0" not in command.args
            assert ADDR in " ".join(command.args)
        if driver.serves_http(spec):
            assert "served" in driver.commands(spec)[-1].args
            assert any("20001" in arg for arg in driver.commands(spec)[-1].args)


@every_driver
def test_its_environment_is_whole_and_holds_no_settings_of_the_agent(driver):
    for spec in (shard(driver), *ranks(driver)):
        for command in driver.commands(spec):
            assert command.env["PATH"] == "/bin"
            assert command.env["CUDA_VISIBLE_DEVICES"] == ",".join(map(str, spec.gpu_indices))
            assert not any(name.startswith("LLMGW_") for name in command.env)
            assert command.env["NCCL_IB_DISABLE"] == ("0" if spec.hcas else "1")
            assert ("NCCL_IB_HCA" in command.env) is bool(spec.hcas)
            assert "secret" not in repr(command)


@every_driver
def test_only_rank_0_serves_and_every_other_rank_is_held_back_from_its_first_process_on(driver):
    assert driver.serves_http(shard(driver))
    for spec in ranks(driver):
        assert driver.serves_http(spec) is (spec.rank == 0)
        if spec.rank:
            assert driver.commands(spec)[0].wait_for_leader_port


@every_driver
def test_one_node_waits_for_nobody(driver):
    assert not any(command.wait_for_leader_port for command in driver.commands(shard(driver)))


@every_driver
def test_it_takes_a_sound_profile_and_refuses_all_that_is_wrong_in_one_sentence(driver):
    driver.validate(profile(driver), CARDS[:1])
    with pytest.raises(Invalid) as refused:
        driver.validate(profile(driver, model_path="", tp=0), CARDS[:1])
    assert "no model" in refused.value.message
    assert "tp is 0" in refused.value.message


@every_driver
def test_without_cards_it_runs_if_the_catalog_says_so(driver):
    if driver.name in CPU_ENGINES:
        driver.validate(profile(driver), ())
    else:
        with pytest.raises(Invalid, match="gpu_class"):
            driver.validate(profile(driver), ())


@every_driver
def test_it_ends_politely_at_first_and_within_a_bound(driver):
    steps = driver.stop_plan.steps
    assert steps
    assert all(0 < step.wait_s <= 60 for step in steps)


@every_driver
def test_each_of_its_programs_can_be_asked_for_its_options(driver):
    asked = {question.command for question in driver.help_questions()}
    started = {
        command.name
        for spec in (shard(driver), *ranks(driver))
        for command in driver.commands(spec)
    }
    assert asked == started
    for question in driver.help_questions():
        assert question.words[-1].startswith("--help")
        assert len(option_check.uses(driver, question)) >= 5
