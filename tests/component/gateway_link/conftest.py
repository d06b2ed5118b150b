"""A CA for both ends, and an ear for what the gateway logs."""

from __future__ import annotations

import pytest

from tests.fakes.log_ear import heard
from tests.fakes.rpc_stage import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A CA that issues what a test asks for."""
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def link_log():
    """The events that the gateway's link logs, as (event, keys)."""
    with heard("llmgw.serve.gateway_link") as events:
        yield events
