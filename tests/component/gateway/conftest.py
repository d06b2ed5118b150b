"""A gateway a test, on both event loops; whatever a test does, nothing is left under way."""

from __future__ import annotations

import asyncio
import logging

import pytest
import uvloop

from tests.fakes.gateway_stage import Errors, Stage


def pytest_asyncio_loop_factories(config, item):
    """Every test here runs on both event loops."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
def logged_errors():
    """Errors that were logged; a test that expects some clears the list."""
    handler = Errors()
    names = ("llmgw", "asyncio")
    for name in names:
        logging.getLogger(name).addHandler(handler)
    yield handler.events
    for name in names:
        logging.getLogger(name).removeHandler(handler)


@pytest.fixture
async def stage(logged_errors):
    """The gateway of one test."""
    stage = Stage()
    yield stage
    await stage.close()
    assert logged_errors == []
