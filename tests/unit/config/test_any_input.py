"""Whatever is written, the answer is settings or a list of mistakes."""

from __future__ import annotations

import contextlib
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.config import shape, sources
from llmgw.config.loading import load_agent, load_server
from llmgw.config.reading import Reading
from llmgw.config.settings import AgentSettings, ServerSettings
from llmgw.errors import SettingsInvalid

KEYS = sorted(
    {
        path.rpartition(".")[2]
        for kind in (ServerSettings, AgentSettings)
        for path in shape.paths(kind)
    }
    | {"id", "url", "models", "name", "hcas", "api_key", "profiles", "engine", "min", "x"}
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.text(max_size=12),
    st.dates(),
    st.sampled_from(["2s", "1MiB", ":80", "http://h:1", "insecure", "${X}", "n1", "sim"]),
)
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.integers()), inner, max_size=5),
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS), trees, max_size=6))
def test_any_tree_is_read_or_has_problems(tree):
    for kind in (ServerSettings, AgentSettings):
        reading = Reading()
        assert isinstance(reading.settings(kind, tree), kind)


@given(st.sampled_from([*shape.paths(ServerSettings), *shape.paths(AgentSettings)]), st.text())
def test_any_text_in_any_variable_is_read_or_is_a_mistake(path, text):
    for load in (load_server, load_agent):
        with contextlib.suppress(SettingsInvalid):
            assert load(None, environ={sources.variable(path): text})


def settings_with_a_default():
    for kind in (ServerSettings, AgentSettings):
        for path in shape.paths(kind):
            value = kind()
            for name in path.split("."):
                value = getattr(value, name, None)
            if value is not None and not shape.is_group(type(value)):
                yield pytest.param(kind, path, value, id=f"{kind.__name__}.{path}")


@pytest.mark.parametrize(("kind", "path", "value"), [*settings_with_a_default()])
def test_every_setting_can_be_given_by_environment(kind, path, value):
    listed = list(value) if isinstance(value, tuple) else value
    text = listed if isinstance(listed, str) else json.dumps(listed, default=dataclasses.asdict)
    load, base = (load_server, {}) if kind is ServerSettings else (load_agent, AGENT)
    try:
        read = load(None, environ={**base, sources.variable(path): text})
    except SettingsInvalid as refused:
        raise AssertionError([str(p) for p in refused.problems]) from refused
    for name in path.split("."):
        read = getattr(read, name)
    if path not in {"server", "servers", "node_id", "hostname", "model_dirs"}:
        assert read == value


AGENT = {"LLMGW_SERVER": "http://h:1", "LLMGW_SERVERS": "http://h:1"}
