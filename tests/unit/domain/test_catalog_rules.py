"""Which sets of models make a catalog."""

from __future__ import annotations

import pytest

from llmgw.domain import catalog_rules
from llmgw.domain.catalog import Model, Profile, Scaling
from llmgw.errors import CatalogInvalid


def model(name="m", *profiles, **others):
    return Model(name=name, source=others.pop("source", "/w"), profiles=profiles, **others)


def profile(name="p", engine="vllm", **others):
    return Profile(name=name, engine=engine, **others)


def problems(*models):
    with pytest.raises(CatalogInvalid) as caught:
        catalog_rules.build(models)
    return {problem.path: problem.message for problem in caught.value.problems}


def only(found):
    (item,) = found.items()
    return item


def test_names_and_aliases_resolve_to_their_model():
    catalog = catalog_rules.build([model("a", aliases=("x", "y")), model("b", fallbacks=("x",))])
    assert catalog.resolve("y") is catalog.models["a"]
    assert catalog.resolve("b") is catalog.models["b"]
    assert catalog.resolve("c") is None


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "ä", "x" * 129])
def test_name_of_another_shape_is_refused(name):
    assert "models[0].name" in problems(model(name))


@pytest.mark.parametrize(
    ("models", "path"),
    [
        ((model("a"), model("a")), "models[1].name"),
        ((model("a", aliases=("b",)), model("b")), "models[0].aliases[0]"),
        ((model("a", aliases=("x",)), model("b", aliases=("x",))), "models[1].aliases[0]"),
        ((model("a", aliases=("a",)),), "models[0].aliases[0]"),
    ],
    ids=["two-names", "alias-is-a-name", "two-aliases", "alias-of-itself"],
)
def test_no_name_may_mean_two_models(models, path):
    assert "is taken by" in problems(*models)[path]


def test_fallback_must_be_known():
    assert only(problems(model("a", fallbacks=("b",))))[0] == "models[0].fallbacks[0]"


@pytest.mark.parametrize("name", ["a", "alias"])
def test_model_is_no_fallback_of_itself(name):
    found = problems(model("a", aliases=("alias",), fallbacks=(name,)))
    assert "itself" in found["models[0].fallbacks[0]"]


def test_models_may_fall_back_to_each_other():
    catalog = catalog_rules.build([model("a", fallbacks=("b",)), model("b", fallbacks=("a",))])
    assert [one.fallbacks for one in catalog.models.values()] == [("b",), ("a",)]


@pytest.mark.parametrize("source", ["hf:org", "hf:", "hf:org//x", "hf:org/repo:", "http://"])
def test_source_that_is_written_wrongly_is_refused_with_how_to_write_it(source):
    assert "write h" in problems(model("a", source=source))["models[0].source"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        (model(routing_profile="chatty"), "models[0].routing_profile"),
        (model(capabilities=("tools", "tool")), "models[0].capabilities[1]"),
        (model(description="a\nb"), "models[0].description"),
        (model(description="a" * 501), "models[0].description"),
        (model(scaling=Scaling(min=3, max=2)), "models[0].scaling.max"),
        (model(scaling=Scaling(min=-1, max=2)), "models[0].scaling"),
        (model(scaling=Scaling(min=0, max=1, idle_timeout_s=59)), "models[0].scaling.idle_timeout"),
    ],
    ids=["routing", "capability", "two-lines", "too-long", "max-below-min", "negative", "idle"],
)
def test_broken_rule_of_a_model_is_found(entry, path):
    assert only(problems(entry))[0] == path


@pytest.mark.parametrize(
    ("broken", "path", "says"),
    [
        (profile(engine="vlm"), ".engine", "legal: llamacpp, sglang, sim, vllm"),
        (profile(), ".gpu_class", "only llamacpp and sim"),
        (profile(engine="sglang"), ".gpu_class", "required for sglang"),
        (profile(gpu_class="x", tp=4, nodes=2), ".gpus_per_node", "required with nodes 2"),
        (profile(gpu_class="x", tp=4, nodes=2, gpus_per_node=4), "", "2 x 4, but tp x pp is 4 x 1"),
        (profile(gpu_class="x", tp=2, pp=2), "", "1 x 2, but tp x pp is 2 x 2"),
        (profile(gpu_class="x", tp=0), "", "at least 1"),
        (profile(engine="llamacpp", gpu_class="x", tp=2), "", "llamacpp runs on one node"),
        (profile(engine="llamacpp", nodes=2, gpus_per_node=1), "", "llamacpp runs on one node"),
        (profile(engine="sim", nodes=2, gpus_per_node=1, tp=2), "", "without gpu_class"),
        (profile(engine="sim", gpus_per_node=1), "", "without gpu_class"),
        (profile(engine="sim", startup_timeout_s=9), ".startup_timeout", "at least 10s"),
        (profile(engine="sim", min_memory_gb=-1), ".min_memory_gb", "at least 0"),
        (profile(engine="sim", env={"A B": "1"}), ".env.A B", "no name"),
        (profile(engine="sim", env={"NCCL_IB_HCA": "x"}), ".env.NCCL_IB_HCA", "allow_env_override"),
        (profile(gpu_class="a100-80g", args=("--quantization", "fp8")), ".args", "8.9"),
        (profile(gpu_class="3090-24g", args=("--quantization=fp8",)), ".args", "8.9"),
        (profile(name="", engine="sim"), ".name", "required"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_broken_rule_of_a_profile_is_found(broken, path, says):
    at, message = only(problems(model("m", broken)))
    assert at == f"models[0].profiles[0]{path}"
    assert says in message


@pytest.mark.parametrize(
    "fine",
    [
        profile(engine="sim"),
        profile(engine="llamacpp"),
        profile(gpu_class="h100-80g", args=("--quantization", "fp8")),
        profile(gpu_class="a100-80g", args=("--quantization", "awq", "fp8")),
        profile(gpu_class="x", tp=8, nodes=2, gpus_per_node=4),
        profile(gpu_class="x", tp=2, pp=2, gpus_per_node=4),
        profile(engine="sim", env={"NCCL_IB_HCA": "x"}, allow_env_override=True),
    ],
    ids=["sim", "llamacpp", "fp8-on-h100", "no-fp8", "two-nodes", "pipeline", "env-taken-over"],
)
def test_legal_profile_is_accepted(fine):
    assert catalog_rules.build([model("m", fine)]).models["m"].profiles == (fine,)


def test_two_profiles_of_one_name_are_refused():
    found = problems(model("m", profile(engine="sim"), profile(engine="sim")))
    assert "models[0].profiles[1].name" in found


def test_simulated_only_if_every_profile_is():
    sim, real = profile(engine="sim"), profile("q", engine="llamacpp")
    assert model("m", sim).is_simulated
    assert not model("m", sim, real).is_simulated
    assert not model("m").is_simulated


@pytest.mark.parametrize(
    ("edit", "is_changed"),
    [
        ({"priority": 9}, False),
        ({"startup_timeout_s": 60.0}, False),
        ({"node_selector": {"a": "b"}}, False),
        ({"weight": 2.0}, False),
        ({"args": ("--x",)}, True),
        ({"env": {"A": "1"}}, True),
        ({"gpu_class": "h100-80g"}, True),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_fingerprint_changes_with_the_process_and_with_nothing_else(edit, is_changed):
    plain = profile(engine="sim")
    edited = profile(engine="sim", **edit)
    before, after = model("m", plain), model("m", edited)
    assert (plain.fingerprint(model=before) != edited.fingerprint(model=after)) is is_changed


def test_fingerprint_changes_with_the_source():
    plain = profile(engine="sim")
    assert plain.fingerprint(model=model(source="/a")) != plain.fingerprint(
        model=model(source="/b")
    )
