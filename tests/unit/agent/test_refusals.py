"""What a person is told when gRPC says something only a developer of gRPC understands."""

from __future__ import annotations

import grpc
import pytest
from grpc import aio

from llmgw.agent import refusals
from llmgw.config.servers import ServerAddress
from llmgw.errors import Standby, Unavailable, Unreachable
from llmgw.kit.addresses import Address
from llmgw.rpc import statuses

ADDRESS = ServerAddress(Address("cp1", 7443), is_plaintext=True)


def explained(details, *, code=None):
    trailing = aio.Metadata((statuses.CODE_KEY, code)) if code else aio.Metadata()
    status = aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, aio.Metadata(), trailing, details)
    return refusals.explain(status, address=ADDRESS, tls=None)


@pytest.mark.parametrize(
    ("details", "expected"),
    [
        ("last error: UNKNOWN: Failed to connect to remote host: Connection refused", "running?"),
        ("Stream removed (ping timeout)", "answers no more"),
        ("Stream removed (Socket closed)", "ended or restarts"),
        ("Failed parsing HTTP/2 (Expected SETTINGS frame as the first frame", "something else"),
        ("failed to connect to all addresses; last error: odd", "http://cp1:7443: odd"),
    ],
)
def test_texts_of_the_transport_are_translated_and_unknown_ones_passed_on(details, expected):
    error = explained(details)
    assert isinstance(error, Unreachable)
    assert expected in error.message


def test_the_peers_own_refusal_keeps_its_class_and_sentence():
    error = explained("this control plane is a standby", code="standby")
    assert isinstance(error, Standby)
    assert error.message == "http://cp1:7443 refused: this control plane is a standby"


def test_a_code_of_a_newer_peer_is_still_a_refusal():
    assert isinstance(explained("too warm", code="overheated"), Unavailable)
