"""How gateways on other hosts are shown with the status."""

from __future__ import annotations

import io

from llmgw.cli import gateways_showing
from llmgw.cli.screens import Screen
from llmgw.domain.status_views import GatewayView


def shown(*gateways):
    stream = io.StringIO()
    gateways_showing.show(Screen(stream=stream), gateways)
    return [line.split() for line in stream.getvalue().splitlines() if line]


def gateway(name, **facts):
    usual = {"is_connected": True, "is_current": True, "heard_s": 0.4, "term": 3, "number": 17}
    return GatewayView(name, "10.0.0.5:4711", "0.1.0", workers=2, **{**usual, **facts})


def test_gateways_are_listed_with_term_and_table():
    heads, *rows = shown(
        gateway("gw01"),
        gateway("gw02", is_current=False, number=16),
        gateway("gw03", is_connected=False, heard_s=75.0),
        gateway("gw04", is_connected=False, is_current=False, term=None, number=None),
    )
    assert heads == ["GATEWAY", "STATE", "TERM", "TABLE", "WORKERS", "VERSION", "HEARD"]
    assert rows == [
        ["gw01", "current", "3", "17", "2", "0.1.0", "0s"],
        ["gw02", "behind", "3", "16", "2", "0.1.0", "0s"],
        ["gw03", "silent", "3", "17", "2", "0.1.0", "1m15s"],
        ["gw04", "new", "-", "-", "2", "0.1.0", "0s"],
    ]


def test_a_site_without_any_has_no_table_of_them():
    assert shown() == []
