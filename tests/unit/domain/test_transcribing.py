"""Models are written so that the same models are read again."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.domain import definitions, transcribing
from llmgw.domain.catalog import CAPABILITIES, ROUTING_PROFILES, Model, Profile, Scaling
from llmgw.errors import Invalid

_words = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=9
)
_any_text = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=9)
_plain = _words.filter(lambda word: word.strip() == word)
_amounts = st.floats(0, 1e9).filter(lambda amount: amount == 0 or amount > 1e-3)
_counts = st.integers(1, 64)


def _seconds(at_least):
    return st.one_of(st.integers(at_least, 10**6).map(float), st.floats(at_least, 1e6))


@st.composite
def _scalings(draw):
    least = draw(st.integers(0, 9))
    most = draw(st.integers(least, 20))
    return Scaling(min=least, max=most, idle_timeout_s=draw(_seconds(60)))


_profiles = st.builds(
    Profile,
    name=_plain,
    engine=_plain,
    gpu_class=st.one_of(st.just(""), _plain),
    tp=_counts,
    pp=_counts,
    nodes=_counts,
    gpus_per_node=st.integers(0, 8),
    args=st.lists(_any_text, max_size=3).map(tuple),
    env=st.dictionaries(_words, _words, max_size=3),
    allow_env_override=st.booleans(),
    priority=st.integers(-9, 9),
    weight=_amounts.filter(bool),
    startup_timeout_s=_seconds(10),
    node_selector=st.dictionaries(_words, _words, max_size=3),
    min_memory_gb=_amounts,
    min_disk_gb=_amounts,
)
_models = st.builds(
    Model,
    name=_plain,
    source=_plain,
    aliases=st.lists(_plain, max_size=3).map(tuple),
    fallbacks=st.lists(_plain, max_size=3).map(tuple),
    routing_profile=st.sampled_from(["", *ROUTING_PROFILES]),
    scaling=st.one_of(st.none(), _scalings()),
    profiles=st.lists(_profiles, max_size=2).map(tuple),
    context_length=st.one_of(st.none(), st.integers(1, 10**6)),
    capabilities=st.lists(st.sampled_from(CAPABILITIES), unique=True).map(tuple),
    description=st.one_of(st.none(), _plain),
)


@settings(max_examples=60)
@given(_models)
def test_what_is_written_is_read_as_the_same_model_through_yaml_too(model):
    text = yaml.safe_dump(transcribing.written(model), sort_keys=False)
    reading = definitions.read_model(yaml.safe_load(text), path="model")
    assert reading.problems == ()
    assert reading.entries[0].model == model


def test_what_has_its_default_is_left_out():
    model = Model(name="m", source="/w", scaling=Scaling(), profiles=(Profile("cpu", "sim"),))
    assert transcribing.written(model) == {
        "name": "m",
        "source": "/w",
        "scaling": {"min": 0},
        "profiles": [{"name": "cpu", "engine": "sim"}],
    }


@pytest.mark.parametrize("written", ["1h", "90s", "250ms"])
def test_durations_are_written_as_people_do(written):
    assert transcribing.written(
        Model("m", "/w", profiles=(Profile("p", "sim", startup_timeout_s=_read(written)),))
    )["profiles"] == [{"name": "p", "engine": "sim", "startup_timeout": written}]


def _read(written):
    raw = {"name": "p", "source": "/w", "profiles": [{"startup_timeout": written}]}
    reading = definitions.read_model(raw, path="model")
    if not reading.entries:
        raise Invalid("unread")
    return reading.entries[0].model.profiles[0].startup_timeout_s
