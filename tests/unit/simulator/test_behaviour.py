"""What may be set on a sim engine at its start and while it runs."""

import dataclasses

import pytest

from llmgw.errors import Invalid
from llmgw.kit.addresses import Address
from llmgw.simulator import behaviour
from llmgw.simulator.behaviour import Behaviour, EngineOptions

_LISTEN = Address("127.0.0.1", 0)


def test_only_the_named_fields_change():
    changed = behaviour.changed(Behaviour(tpot_ms=7.0), {"hang": True, "ttft_ms": 1})
    assert changed == Behaviour(tpot_ms=7.0, ttft_ms=1, hang=True)


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param([], id="no object"),
        pytest.param({"speed": 3}, id="unknown"),
        pytest.param({"hang": 1}, id="number for yes or no"),
        pytest.param({"ttft_ms": True}, id="yes or no for a number"),
        pytest.param({"ttft_ms": -1}, id="negative"),
        pytest.param({"ttft_ms": "5"}, id="text"),
        pytest.param({"fail_rate": 1.5}, id="rate"),
        pytest.param({"fail_status": 200}, id="status"),
        pytest.param({"cut_after_tokens": 0}, id="cut"),
    ],
)
def test_a_change_that_means_nothing_is_refused(wanted):
    with pytest.raises(Invalid):
        behaviour.changed(Behaviour(), wanted)


def test_every_field_can_be_changed_while_running():
    fields = dataclasses.asdict(Behaviour())
    assert behaviour.changed(Behaviour(), fields) == Behaviour()


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"models": ()}, id="no model"),
        pytest.param({"parallel": 0}, id="no slot"),
        pytest.param({"nnodes": 2}, id="no address to meet at"),
        pytest.param({"node_rank": 1}, id="rank without nodes"),
        pytest.param({"exit_after": 0}, id="exit before the first"),
        pytest.param({"load_s": -1.0}, id="load time"),
    ],
)
def test_options_that_cannot_work_are_refused_at_start(fields):
    with pytest.raises(Invalid):
        EngineOptions(**{"listen": _LISTEN, "models": ("m",), **fields})
