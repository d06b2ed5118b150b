"""A body of more values than any request has is read no further than routing needs."""

from __future__ import annotations

import tracemalloc

import orjson
import pytest

from llmgw.gateway.abundance import is_abundant
from llmgw.gateway.estimating import estimate_tokens, needs
from llmgw.gateway.heads import head_of

HOARDS = {
    "lists": b"[" + b"[]," * 500_000 + b"1]",
    "objects": b"[" + b"{}," * 500_000 + b"1]",
    "numbers": b"[" + b"1," * 3_000_000 + b"1]",
}
hoards = pytest.mark.parametrize("hoard", HOARDS.values(), ids=HOARDS)


@hoards
def test_body_of_too_many_values_is_abundant(hoard):
    assert is_abundant(b'{"model":"m","x":' + hoard + b"}")


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            {"messages": [{"role": "user", "content": "a, b, [c] {d} " * 20_000}]}, id="text"
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "Hello, you."}] * 20_000}, id="many messages"
        ),
        pytest.param({"input": [[12345] * 500] * 2048}, id="thousands of texts as tokens"),
        pytest.param({"x": "A" * 8_000_000}, id="an image"),
        pytest.param({"x": [[]] * 50_000}, id="short"),
    ],
)
def test_no_request_that_anybody_makes_is_abundant(asked):
    assert not is_abundant(orjson.dumps(asked))


@hoards
def test_nothing_of_it_is_made_objects_of(hoard):
    bodies = [
        b'{"messages":[{"role":"user","content":' + hoard + b"}]}",
        b'{"tools":' + hoard + b',"messages":' + hoard + b',"image":1}',
        b'{"prompt":' + hoard + b"}",
    ]
    tracemalloc.start()
    for body in bodies:
        assert estimate_tokens(body) == len(body) // 4
        assert needs(body) == frozenset()
        assert head_of(body, 2048) == b""
    _, most_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most_bytes < 20_000


def test_part_nested_as_deep_as_can_be_read_has_a_digest():
    for depth in range(900, 1000, 3):
        body = b'{"messages":[{"role":"user","content":[' + b"[" * depth + b"]" * depth + b"]}]}"
        assert len(head_of(body, 2048)) in {0, 38}
