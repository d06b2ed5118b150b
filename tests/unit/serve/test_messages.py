"""What server and worker say to each other."""

from __future__ import annotations

import msgspec
import pytest

from llmgw.config.carrying import RouterSettings, StreamSettings
from llmgw.config.entering import AdmissionSettings, OnDemandSettings
from llmgw.config.settings import GatewaySettings, LogSettings
from llmgw.domain.routes import Endpoint, EndpointState, ModelState, RoutedModel, RouteTable
from llmgw.serve import messages
from llmgw.serve.messages import Configure, Hello, Routes, Serving, Wanted, WorkerSettings

TABLE = RouteTable(
    number=3,
    term=2,
    endpoints=(
        Endpoint(endpoint_id="a", url="http://h:1", models=("m",), api_key="k", context_length=8),
        Endpoint(endpoint_id="b", url="http://h:2", models=(), state=EndpointState.DRAINING),
    ),
    models={"m": RoutedModel(name="m", aliases=("n",), state=ModelState.LOADING)},
    canonical={"m": "m", "n": "m"},
)


@pytest.mark.parametrize(
    "message",
    [
        Hello(pid=1, version="1.0", digest="d", is_serving=True),
        Configure(settings=WorkerSettings(), board="/run/llmgw/board-v1/load", row=3),
        Routes(table=TABLE),
        Serving(table_number=3),
        Wanted(models=frozenset({"m", "n"})),
    ],
    ids=messages.subject,
)
def test_a_message_comes_as_it_was_sent(message):
    assert messages.decode(messages.encode(message)) == message


@pytest.mark.parametrize("body", [b"", b"\x00", b"\x81\xa4type\xa3new"])
def test_what_is_no_message_is_refused(body):
    with pytest.raises(msgspec.MsgspecError):
        messages.decode(body)


def test_a_hello_of_a_newer_version_is_understood():
    body = {"type": "hello", "pid": 1, "version": "9.9", "is_hungry": True}
    assert messages.decode(msgspec.msgpack.encode(body)).version == "9.9"


@pytest.mark.parametrize(
    "other",
    [
        WorkerSettings(router=RouterSettings(stream=StreamSettings(write_timeout_s=1.0))),
        WorkerSettings(gateway=GatewaySettings(shutdown_grace_s=1.0)),
        WorkerSettings(log=LogSettings(level="debug")),
        WorkerSettings(admission=AdmissionSettings(enabled=False)),
        WorkerSettings(on_demand=OnDemandSettings(hold_s=1.0)),
    ],
    ids=["router", "gateway", "log", "admission", "on_demand"],
)
def test_any_other_setting_is_another_digest(other):
    assert other.digest() != WorkerSettings().digest()
    told = messages.decode(messages.encode(Configure(settings=other, board="b", row=0)))
    assert other.digest() == told.settings.digest()
