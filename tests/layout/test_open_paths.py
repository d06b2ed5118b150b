"""Paths that ask for no key are few, written down, and answered by somebody."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.routing import Route

from llmgw.gateway import house_paths
from llmgw.gateway.identifying import OPEN_PATHS
from llmgw.web.page_app import Rooms, create_app

PAGE = Path(__file__).parents[2] / "docs/understand/security.md"
_ROW = re.compile(r"^\| `(/[^`]*|\*)` \|", re.MULTILINE)


def filled(path):
    """A path of the page with names in the place of what is in braces."""
    return re.sub(r"\{\w+\}", "abc-1", path)


@pytest.fixture
def written():
    return [filled(path) for path in _ROW.findall(PAGE.read_text())]


def routes_of_pages():
    app = create_app(Rooms(*[None] * 5, login=object()), public_url="https://llm.example")
    return {filled(route.path) for route in app.routes if isinstance(route, Route)}


def test_the_page_names_each_path_that_asks_for_no_key_and_no_other(written):
    exact = {path.decode() for path in OPEN_PATHS | house_paths.OPEN}
    below = {path for path in written if path not in exact}
    assert len(written) == len(set(written))
    assert exact <= set(written)
    assert len(below) == len(house_paths.OPEN_BELOW)
    assert all(house_paths.is_open(path.encode()) for path in below)


def test_each_page_is_let_through_and_each_path_that_is_let_through_is_a_page(written):
    at_the_gateway = {path.decode() for path in OPEN_PATHS}
    assert routes_of_pages() == set(written) - at_the_gateway


def test_keyed_paths_are_not_open():
    assert not any(house_paths.is_open(path) for path in house_paths.KEYED)
    assert OPEN_PATHS.isdisjoint(house_paths.KEYED)
