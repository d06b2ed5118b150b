"""What is declared is checked at the start, and written as what is added later."""

from __future__ import annotations

import functools

import pytest
import yaml

from llmgw.api import reading_models
from llmgw.config.loading import load_server
from llmgw.control.catalog import editing
from llmgw.control.catalog.keeping import CatalogKeeper
from llmgw.domain import definitions
from tests.fakes import commands
from tests.fakes.stored_models import StoredModelsInMemory, written

EVERYTHING = """
- name: llama
  source: /models/llama
  aliases: [meta, 8b]
  fallbacks: [qwen]
  routing_profile: batch
  scaling: {min: 1, max: 4, idle_timeout: 90m}
  context_length: 131072
  capabilities: [tools, json]
  description: for long answers
  price: {prompt_per_1k: 1000, completion_per_1k: 3000}
  profiles:
  - name: wide
    engine: vllm
    gpu_class: h100-80g
    tp: 4
    pp: 2
    nodes: 2
    gpus_per_node: 4
    args: [--max-model-len, 8192, --tool-call-parser, llama3_json]
    env: {HF_HOME: /models, RETRIES: 3, NCCL_IB_HCA: mlx5_0}
    allow_env_override: true
    priority: 100
    weight: 8
    startup_timeout: 30m
    node_selector: {zone: a}
    min_memory_gb: 64
    min_disk_gb: 200.5
- name: qwen
  source: /models/qwen.gguf
"""


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"fallbacks": ["nosuch"]}, "models[0].fallbacks[0]"),
        ({"aliases": ["other"]}, "models[0].aliases[0]"),
        ({"profiles": [{"name": "p", "engine": "sim", "enginee": "x"}]}, "profiles[0].enginee"),
    ],
    ids=["fallback", "alias", "key"],
)
def test_a_typo_of_a_declared_model_stops_the_start(tmp_path, fields, path):
    file = tmp_path / "server.yaml"
    file.write_text(yaml.safe_dump({"models": [written("m", **fields), written("other")]}))
    done = commands.here("server", "--config", str(file))
    assert done.returncode == 2
    assert path in done.stderr


async def test_the_same_text_is_the_same_model_in_the_settings_and_added(tmp_path, clock):
    """Every field that there is."""
    written_models = yaml.safe_load(EVERYTHING)
    first = written_models[0]
    assert set(first) == set(definitions.MODEL_KEYS)
    assert set(first["profiles"][0]) == set(definitions.PROFILE_KEYS)
    assert set(first["scaling"]) == set(definitions.SCALING_KEYS)
    file = tmp_path / "server.yaml"
    file.write_text(f"agent_listen: 127.0.0.1:0\nmodels:{EVERYTHING}")
    declared = load_server(file, environ={}).models

    keeper = CatalogKeeper((), stored=StoredModelsInMemory(), clock=clock)
    for one in reversed(written_models):
        text = yaml.safe_dump(one)
        add = functools.partial(
            editing.added, definition=reading_models.one(text), may_replace=False
        )
        await keeper.edit(add, actor="ann")
    stored = keeper.live.current().models
    assert [stored[model.name] for model in declared] == list(declared)
