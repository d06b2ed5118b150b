"""Names of weights: agent and control plane must never disagree about them."""

from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.domain import weights
from llmgw.errors import Invalid

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


@pytest.mark.parametrize(
    ("source", "repository", "revision", "pattern"),
    [
        pytest.param("hf:o/r", "o/r", "main", "", id="repository"),
        pytest.param("hf:o/r@v1.2", "o/r", "v1.2", "", id="revision"),
        pytest.param("hf:o/r@refs/pr/1", "o/r", "refs/pr/1", "", id="revision-with-slashes"),
        pytest.param("hf:o/r:*Q4_K_M*", "o/r", "main", "*Q4_K_M*", id="pattern"),
        pytest.param("hf:o/r@v1:q/*.gguf", "o/r", "v1", "q/*.gguf", id="all"),
        pytest.param("hf:o/r/q/f.gguf", "o/r", "main", "q/f.gguf", id="file"),
        pytest.param("hf:o/r/q/f.gguf@abc", "o/r", "abc", "q/f.gguf", id="file-and-revision"),
    ],
)
def test_a_hub_source_is_taken_apart(source, repository, revision, pattern):
    made = weights.hub_source(source)
    assert (made.repository, made.revision, made.pattern) == (repository, revision, pattern)
    weights.check(source)


@pytest.mark.parametrize(
    "source",
    [
        *("hf:", "hf:o", "hf:o/", "hf:/r", "hf:o//f", "hf:o/r/", "hf:o/r:", "hf:o/r@", "hf:o/r@:x"),
        *("hf:../r", "hf:o/..", "hf:o/r/../x", "hf:o/r:/etc/*", "hf:o/r:a/../../*", "hf:o/r@../x"),
        *("hf:o/r@a b", "hf:o/r/f\\x", "hf:o/r/f:x", "http://", "https:///x.gguf", "http://["),
    ],
)
def test_a_source_that_names_nothing_or_leads_out_is_refused(source):
    with pytest.raises(Invalid):
        weights.check(source)


@given(source=st.text(max_size=60).map(lambda tail: f"hf:{tail}"))
def test_any_hub_source_is_read_or_refused_and_has_a_name_of_one_segment(source):
    name = weights.cache_name(source)
    assert re.fullmatch(r"[0-9a-f]{16}-[A-Za-z0-9._+=@~-]+", name)
    assert not name.endswith((*weights.PARTIAL_SUFFIXES, ".lock"))
    with contextlib.suppress(Invalid):
        assert weights.is_inside(weights.hub_source(source).repository)


@pytest.mark.parametrize(
    "source", ["https://h/x.part", "https://h/x.lock", "hf:o/r/x.partial", "hf:o/x.trash"]
)
def test_a_name_is_never_taken_for_that_of_a_part(source):
    assert weights.holds(source, [f"/w/{weights.cache_name(source)}"])


@pytest.mark.parametrize(
    ("source", "tail"),
    [
        ("hf:o/r/q/f.gguf@v1", "-f.gguf"),
        ("hf:o/r@v1", "-r"),
        ("hf:o/r:BF16/*", "-r-BF16-_"),
        ("http://mirror/llama/v1/", "-v1"),
        ("https://h/a%20b.gguf", "-a_20b.gguf"),
        ("https://h/x.gguf#sha256=" + "a" * 64, "-x.gguf"),
    ],
)
def test_a_cache_name_keeps_what_a_person_and_the_scan_look_for(source, tail):
    assert weights.cache_name(source)[16:] == tail


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("m-00001-of-00003.gguf", 3),
        ("m-00003-of-00003.GGUF", 3),
        ("m-00004-of-00003.gguf", 0),
        ("m-00000-of-00003.gguf", 0),
        ("m-00001-of-99999.gguf", 0),
        ("m-00001-of-00003.safetensors", 0),
        ("m.gguf", 0),
    ],
)
def test_the_parts_of_a_split_model_are_known_by_one_of_them(name, count):
    parts = weights.split_names(name)
    assert len(parts) == count
    assert not count or (name in parts and parts[0].startswith("m-00001-of-"))


def test_orphans_are_downloads_that_no_source_names():
    """Over all nodes and sources: operators' files and what is wanted never count."""
    kept, other = (f"/w/{weights.cache_name(f'https://h/{name}')}" for name in ("a", "b"))
    paths = [other, kept, other, "/w/operators.gguf", f"{other}.0a1b2c3d.trash"]
    assert weights.orphans(paths, ["https://h/a", "/w/b", "Org/b"]) == (other,)
    for end in (".part", ".partial"):
        assert weights.orphans([f"{other}{end}", f"{kept}{end}"], ["https://h/a"]) == (
            f"{other}{end}",
        )
    assert weights.orphans([f"/elsewhere{kept}"], ["https://h/a"]) == ()
    assert weights.orphans(["/w/0123456789abcdef-x"], []) == ("/w/0123456789abcdef-x",)


def test_a_digest_that_an_address_pins_is_read_and_nothing_else():
    digest = "AB" * 32
    assert weights.pinned_sha256(f"https://h/x#sha256={digest}") == digest.lower()
    for other in ("https://h/x", "https://h/x#sha256=12", f"hf:o/r/x#sha256={digest}"):
        assert weights.pinned_sha256(other) == ""
