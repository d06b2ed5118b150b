"""What every test may ask for: a clock that it moves, and engines that run as real processes."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes.clock import FakeClock

# How long an example takes says nothing on a machine that does other things as well.
settings.register_profile("llmgw", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("llmgw")

pytest_plugins = [
    "tests.fakes.engines",
    "tests.fakes.deployment",
    "tests.fakes.postgres",
    "tests.fakes.stores",
]


@pytest.fixture
def clock():
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch):
    """Variables of whoever runs the tests set nothing, here or in processes started here."""
    for name in list(os.environ):
        if name.startswith("LLMGW_"):
            monkeypatch.delenv(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Slow tests that may take longest begin first, so that none is left alone at the end."""
    items.sort(key=lambda item: -_may_take_s(item))


def _may_take_s(item):
    """What a slow test says of itself; all others keep their order."""
    bound = item.get_closest_marker("timeout")
    return bound.args[0] if bound and item.get_closest_marker("slow") else 0
