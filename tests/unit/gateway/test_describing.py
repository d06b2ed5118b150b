"""A body tells where it wants to go, and nothing else of it is touched."""

from __future__ import annotations

import tracemalloc

import msgspec
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.gateway.describing import Description, describe, rewrite_model
from llmgw.gateway.replies import Code

SIZES = pytest.mark.parametrize("padding", [0, 70_000], ids=["small", "large"])


@SIZES
@pytest.mark.parametrize(
    ("body", "model", "is_stream"),
    [
        (b'{"model":"m"}', "m", None),
        (b'{"model":"m","stream":true}', "m", True),
        (b'{"model":"m","stream":false}', "m", False),
        (b'{"model":"m","stream":null}', "m", None),
        (b'{"messages":[{"model":"x"}],"model":"m","n":1.5e3}', "m", None),
        (b'{"mod\\u0065l":"m"}', "m", None),
        (b'{"model":"a","model":"m"}', "m", None),
    ],
    ids=repr,
)
def test_model_and_stream_are_read(body, model, is_stream, padding):
    assert describe(body + b" " * padding) == Description(model, is_stream)


@SIZES
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"", msgspec.UNSET),
        (b',"stream_options":null', None),
        (b',"stream_options":{"include_usage":true}', {"include_usage": True}),
    ],
    ids=repr,
)
def test_what_the_client_asks_of_its_stream_is_read(fields, expected, padding):
    described = describe(b'{"model":"m","stream":true' + fields + b"}" + b" " * padding)
    assert described == Description("m", True, stream_options=expected)


@SIZES
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        (b"", Code.INVALID_JSON, None),
        (b"{", Code.INVALID_JSON, None),
        (b"[]", Code.INVALID_JSON, None),
        (b"null", Code.INVALID_JSON, None),
        (b'{"model":"m"}{', Code.INVALID_JSON, None),
        (b"{}", Code.MISSING_MODEL, "model"),
        (b'{"model":""}', Code.MISSING_MODEL, "model"),
        (b'{"model":null}', Code.INVALID_FIELD, "model"),
        (b'{"model":["m"]}', Code.INVALID_FIELD, "model"),
        (b'{"model":"m","stream":1}', Code.INVALID_FIELD, "stream"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_unreadable_body_is_refused_with_its_reason(body, code, param, padding):
    refusal = describe(body + b" " * padding)
    assert (refusal.code, refusal.param) == (code, param)


@SIZES
@pytest.mark.parametrize("field", [b"x", b"user"])
def test_what_is_nested_absurdly_deep_is_refused_or_left_to_the_engine(field, padding):
    # Python 3.13 reads deeper than 3.11 does, and orjson no deeper than 1024.
    body = b'{"model":"m","' + field + b'":' + b"[" * 3000 + b"]" * 3000 + b"}"
    described = describe(body + b" " * padding)
    if isinstance(described, Description):
        assert (described.model, described.session_hint) == ("m", "")
    else:
        assert described.code is Code.INVALID_JSON


@pytest.mark.parametrize("field", [b"x", b"user", b"prompt_cache_key", b"stream_options"])
@pytest.mark.parametrize("unit", [b"[],", b'{"a":1},', b'"ab",', b"1.5,"], ids=repr)
def test_nothing_of_a_large_body_is_made_objects_of(field, unit):
    """Thirty megabytes of empty lists were a gigabyte of them, and took twenty seconds."""
    value = b"[" + unit * (1_000_000 // len(unit)) + b"1]"
    body = b'{"model":"m","' + field + b'":' + value + b"}"
    tracemalloc.start()
    described = describe(body)
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (described.model, described.session_hint) == ("m", "")
    assert most_bytes < 20_000


def test_text_of_the_body_never_enters_the_refusal():
    refusal = describe(b'{"model":{"canary":"canary"}}')
    assert b"canary" not in refusal.body("r")


def test_other_values_keep_their_bytes_when_the_model_is_renamed():
    body = b'{"a": 1.500, "model" : "alias", "b":{"x":  [1,2 ], "model":"alias"}, "c":"\\u00e9"}'
    renamed = rewrite_model(body, "name/of it")
    assert orjson.loads(renamed)["model"] == "name/of it"
    for part in (b"1.500", b'{"x":  [1,2 ], "model":"alias"}', b'"\\u00e9"'):
        assert part in renamed


@settings(max_examples=30)
@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_renaming_changes_the_model_alone(fields):
    body = orjson.dumps(fields | {"model": "alias"})
    assert orjson.loads(rewrite_model(body, "name")) == fields | {"model": "name"}
