"""Model definitions as people write them."""

from __future__ import annotations

import pytest
import yaml

from llmgw.domain import definitions
from llmgw.domain.catalog import Scaling
from llmgw.domain.pricing import Price
from llmgw.errors import CatalogInvalid

EVERYTHING = """
- name: llama-3.3-70b
  source: meta-llama/Llama-3.3-70B-Instruct
  aliases: [llama]
  fallbacks: [qwen]
  routing_profile: chat
  scaling: {min: 1, max: 4, idle_timeout: 30m}
  context_length: 131072
  capabilities: [tools, json]
  description: for long answers
  profiles:
  - name: tp8
    engine: vllm
    gpu_class: h100-80g
    tp: 8
    pp: 1
    nodes: 2
    gpus_per_node: 4
    args: [--max-model-len, 8192, --tool-call-parser, llama3_json]
    env: {HF_HOME: /models, RETRIES: 3}
    allow_env_override: false
    priority: 100
    weight: 8
    startup_timeout: 30m
    node_selector: {zone: a}
    min_memory_gb: 64
    min_disk_gb: 200.5
- name: qwen
  source: /models/qwen.gguf
  profiles:
  - {name: cpu, engine: llamacpp}
"""


def problems(text):
    with pytest.raises(CatalogInvalid) as caught:
        definitions.load(yaml.safe_load(text))
    return {problem.path: problem.message for problem in caught.value.problems}


def test_every_field_is_read():
    model, other = definitions.load(yaml.safe_load(EVERYTHING))
    assert model.names == ("llama-3.3-70b", "llama")
    assert model.fallbacks == ("qwen",)
    assert model.scaling == Scaling(min=1, max=4, idle_timeout_s=1800.0)
    assert model.context_length == 131072
    assert model.capabilities == ("tools", "json")
    profile = model.profiles[0]
    assert profile.args[:2] == ("--max-model-len", "8192")
    assert profile.env == {"HF_HOME": "/models", "RETRIES": "3"}
    assert (profile.nodes, profile.gpus_per_node, profile.startup_timeout_s) == (2, 4, 1800.0)
    assert profile.node_selector == {"zone": "a"}
    assert (profile.min_memory_gb, profile.min_disk_gb) == (64.0, 200.5)
    assert other.scaling is None
    assert other.description is None
    assert other.context_length is None


def test_no_models_at_all_is_an_empty_list():
    assert definitions.load(None) == ()
    assert definitions.load([]) == ()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("", None),
        ("scaling: {min: 0, max: 0}", Scaling(min=0, max=0)),
        ("scaling: {min: 0, max: 1}", Scaling(min=0, max=1)),
        ("scaling: {min: 2}", Scaling(min=2, max=2)),
        ("scaling: {min: 2, max: 3}", Scaling(min=2, max=3)),
    ],
    ids=["absent", "off", "on-demand", "max-filled-in", "max-given"],
)
def test_absent_max_is_filled_in_only_where_copies_are_promised(written, expected):
    (model,) = definitions.load(yaml.safe_load(f"[{{name: m, source: /w, {written}}}]"))
    assert model.scaling == expected


def test_weight_of_zero_means_one():
    text = "[{name: m, source: /w, profiles: [{name: p, engine: sim, weight: 0}]}]"
    (model,) = definitions.load(yaml.safe_load(text))
    assert model.profiles[0].weight == 1.0


@pytest.mark.parametrize(
    ("text", "path", "says"),
    [
        ("{}", "models", "list of models"),
        ("[5]", "models[0]", "mapping of a model"),
        ("[{source: /w}]", "models[0].name", "required"),
        ("[{name: m}]", "models[0].source", "required"),
        ("[{name: m, source: /w, sorce: x}]", "models[0].sorce", "unknown key"),
        ("[{name: m, source: 5}]", "models[0].source", "5 is not text"),
        ("[{name: m, source: /w, aliases: a}]", "models[0].aliases", "list of texts"),
        ("[{name: m, source: /w, scaling: 2}]", "models[0].scaling", "mapping of scaling"),
        ("[{name: m, source: /w, scaling: {mn: 2}}]", "models[0].scaling.mn", "unknown key"),
        ("[{name: m, source: /w, scaling: {min: -1}}]", "models[0].scaling.min", "at least 0"),
        ("[{name: m, source: /w, profiles: {}}]", "models[0].profiles", "list of profiles"),
        ("[{name: m, source: /w, profiles: [5]}]", "models[0].profiles[0]", "mapping"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.startswith("models") else "",
)
def test_mistake_of_a_model_names_its_path(text, path, says):
    assert says in problems(text)[path]


@pytest.mark.parametrize(
    ("written", "key", "says"),
    [
        ("engin: sim", "engin", "unknown key"),
        ("tp: two", "tp", "'two' is not a whole number"),
        ("tp: 0", "tp", "at least 1"),
        ("tp: true", "tp", "whole number"),
        ("weight: -1", "weight", "at least 0"),
        ("weight: .inf", "weight", "at least 0"),
        ("startup_timeout: soon", "startup_timeout", "a duration"),
        ("args: --x", "args", "list of texts"),
        ("args: [yes]", "args", "in quotes"),
        ("env: [A]", "env", "mapping of names"),
        ("env: {A: true}", "env", "in quotes"),
        ("allow_env_override: 1", "allow_env_override", "true or false"),
        ("node_selector: {zone: [a]}", "node_selector", "text or a number"),
    ],
)
def test_mistake_of_a_profile_names_its_path(written, key, says):
    text = f"[{{name: m, source: /w, profiles: [{{name: p, engine: sim, {written}}}]}}]"
    assert says in problems(text)[f"models[0].profiles[0].{key}"]


def test_all_mistakes_are_told_at_once():
    found = problems(
        """
- {name: a b, source: /w}
- {name: m, source: /w, fallbacks: [nobody], scaling: {min: 3, max: 2}}
- {name: n, source: /w, profiles: [{name: p, engine: vlm}]}
"""
    )
    assert set(found) == {
        "models[0].name",
        "models[1].fallbacks[0]",
        "models[1].scaling.max",
        "models[2].profiles[0].engine",
    }


def test_unreadable_field_brings_no_second_complaint_about_what_rests_on_it():
    text = "[{name: m, source: /w, profiles: [{name: p, engine: sim, tp: x, nodes: 2}]}]"
    assert set(problems(text)) == {"models[0].profiles[0].tp"}


def test_long_value_is_cut_in_the_message():
    text = f"[{{name: m, source: /w, aliases: {'x' * 500}}}]"
    assert len(problems(text)["models[0].aliases"]) < 150


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"description": "a\0b"}, "description"),
        ({"aliases": ["\ud800"]}, "aliases"),
        ({"profiles": [{"name": "p", "engine": "sim", "args": ["\udfff"]}]}, "profiles[0].args"),
        ({"profiles": [{"name": "p", "engine": "sim", "env": {"A": "\0"}}]}, "profiles[0].env"),
        ({"profiles": [{"name": "p", "engine": "sim", "node_selector": {"\0": "a"}}]},
         "profiles[0].node_selector"),
        ({"context_length": 10**30}, "context_length"),
        ({"scaling": {"min": 2**31}}, "scaling.min"),
        ({"price": {"prompt_per_1k": -1}}, "price.prompt_per_1k"),
        ({"price": {"per_1k": 1}}, "price.per_1k"),
        ({"price": 5}, "price"),
        ({"profiles": [{"name": "p", "engine": "sim", "priority": -(10**30)}]},
         "profiles[0].priority"),
        ({"profiles": [{"name": "p", "engine": "sim", "startup_timeout": 1e300}]},
         "profiles[0].startup_timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_no_wire_or_program_could_take_is_refused(fields, path):
    reading = definitions.read_model({"name": "m", "source": "/w", **fields}, path="m")
    assert [problem.path for problem in reading.problems] == [f"m.{path}"]


def test_a_text_that_is_endless_when_spelt_out_costs_nothing():
    bomb = ["x"]
    for _ in range(40):
        bomb = [bomb] * 10
    reading = definitions.read_model({"name": "m", "source": "/w", "aliases": bomb}, path="m")
    assert len(reading.problems[0].message) < 200


@pytest.mark.parametrize(
    ("written", "price"),
    [
        pytest.param("", None, id="none of its own"),
        pytest.param(", price: {}", Price(0, 0), id="free"),
        pytest.param(
            ", price: {prompt_per_1k: 1000, completion_per_1k: 3000}",
            Price(1000, 3000),
            id="its own",
        ),
    ],
)
def test_a_model_may_have_a_price_of_its_own(written, price):
    (model,) = definitions.load(yaml.safe_load(f"[{{name: m, source: /w{written}}}]"))
    assert model.price == price
