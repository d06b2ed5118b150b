"""A CA for both ends, and an ear for what the agent logs."""

from __future__ import annotations

import pytest

from tests.fakes.log_ear import heard
from tests.fakes.rpc_stage import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A CA that issues what a test asks for."""
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def agent_log():
    """The events that the agent logs, as (event, keys)."""
    with heard("llmgw.agent") as events:
        yield events


@pytest.fixture
def control_log():
    """The events that the control plane logs, as (event, keys)."""
    with heard("llmgw.control") as events:
        yield events
