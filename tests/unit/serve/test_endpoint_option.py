"""``--endpoint ID=URL=MODEL``."""

from __future__ import annotations

import pytest

from llmgw.cli.server_cmd import named_endpoints
from llmgw.errors import Invalid


def test_it_splits_at_the_first_and_the_last_equals_sign():
    [found] = named_endpoints(("a=http://host:1/x?key=v=m:7b",))
    assert found == {"id": "a", "url": "http://host:1/x?key=v", "models": ["m:7b"]}


def test_an_id_that_comes_again_has_more_models():
    found = named_endpoints(("a=http://h:1=m", "b=http://h:2=m", "a=http://h:1=n"))
    assert [(e["id"], e["models"]) for e in found] == [("a", ["m", "n"]), ("b", ["m"])]


def test_an_id_with_two_addresses_is_refused():
    with pytest.raises(Invalid, match="a has the address http://h:1 already"):
        named_endpoints(("a=http://h:1=m", "a=http://h:2=m"))


@pytest.mark.parametrize("text", ["a", "a=http://h:1", "=http://h:1=m", "a==m", "a=http://h:1="])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(Invalid, match="ID=URL=MODEL"):
        named_endpoints((text,))
