"""Names of weights: agent and control plane must never disagree about them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain import weights

sources = st.text(min_size=1, max_size=300).map(lambda tail: f"https://host/{tail}")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        pytest.param("https://host/a/tiny.gguf", "87fbc0c8f6cb3896-tiny.gguf", id="address"),
        pytest.param("hf:org/repo/q/tiny.gguf", None, id="hub"),
        pytest.param("https://host/tiny.gguf?x=1#y", "e5600e87528c9aaf-tiny.gguf", id="query"),
        pytest.param("hf:a/b/..", "fd0d58874dbb2375-weights", id="dots"),
    ],
)
def test_a_cache_name_is_a_digest_and_a_readable_tail(source, name):
    made = weights.cache_name(source)
    assert made == (name or made)
    assert made.endswith((".gguf", "-weights"))
    assert re.match(r"[0-9a-f]{16}-", made)


def test_the_same_file_name_of_two_sources_never_collides():
    assert weights.cache_name("https://a/tiny.gguf") != weights.cache_name("https://b/tiny.gguf")


@given(source=sources)
def test_a_cache_name_is_always_one_path_segment(source):
    made = weights.cache_name(source)
    assert "/" not in made
    assert len(made) < 200


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        pytest.param("https://u:secret@h/x.gguf?token=secret#secret", "https://h/x.gguf", id="url"),
        pytest.param("https://[broken", "https://…", id="broken"),
        pytest.param("hf:org/repo/x.gguf", "hf:org/repo/x.gguf", id="hub"),
        pytest.param("/models/x?y.gguf", "/models/x?y.gguf", id="path"),
    ],
)
def test_a_source_is_shown_without_its_secrets(source, shown):
    assert weights.shown(source) == shown
