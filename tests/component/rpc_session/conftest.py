"""A CA for both ends, and an ear for what the agent logs."""

from __future__ import annotations

import logging

import pytest

from tests.fakes.rpc_stage import Site


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """A CA that issues what a test asks for."""
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture
def agent_log():
    """The events that the agent logs, as (event, keys)."""
    events = []

    class Keep(logging.Handler):
        def emit(self, record):
            events.append((record.getMessage(), getattr(record, "keys", {})))

    logger = logging.getLogger("llmgw.agent")
    handler, level = Keep(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield events
    logger.removeHandler(handler)
    logger.setLevel(level)
