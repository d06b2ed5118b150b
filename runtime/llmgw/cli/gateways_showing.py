"""Shows gateways on other hosts as a table of ``llmgw ctl status``."""

from __future__ import annotations

from collections.abc import Sequence

from llmgw.cli import figures
from llmgw.cli.screens import Column, Row, Screen
from llmgw.domain.status_views import GatewayView

_HEADS = ("GATEWAY", "STATE", "TERM", "TABLE", "WORKERS", "VERSION", "HEARD")


def show(screen: Screen, gateways: Sequence[GatewayView]) -> None:
    """Nothing where there are none."""
    if gateways:
        screen.line()
        screen.table([Column(head) for head in _HEADS], [Row(_cells(one)) for one in gateways])


def _cells(gateway: GatewayView) -> tuple[str | None, ...]:
    return (
        gateway.name,
        _state(gateway),
        _number(gateway.term),
        _number(gateway.number),
        _number(gateway.workers),
        gateway.version or None,
        figures.age(gateway.heard_s),
    )


def _state(gateway: GatewayView) -> str:
    if not gateway.is_connected:
        return "silent" if gateway.number is not None else "new"
    return "current" if gateway.is_current else "behind"


def _number(number: int | None) -> str | None:
    return None if number is None else str(number)
