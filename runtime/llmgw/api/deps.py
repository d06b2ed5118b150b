"""How a route gets what it asks: the ports that the application was made with."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, FastAPI, Request

from llmgw.api.ports import Control, FleetViews, NodeFlags, NodeLogs, Readiness, Refusals


def bind(app: FastAPI, *, readiness: Readiness, control: Control | None) -> None:
    """Give ``app`` its ports; without ``control`` it must have no route that asks for it."""
    app.state.readiness = readiness
    app.state.control = control


def ready(request: Request) -> Readiness:
    """The readiness of this process."""
    return cast("Readiness", request.app.state.readiness)


def fleet(request: Request) -> FleetViews:
    """The fleet's views."""
    return cast("Control", request.app.state.control).fleet


def logs(request: Request) -> NodeLogs:
    """The logs of nodes."""
    return cast("Control", request.app.state.control).logs


def flags(request: Request) -> NodeFlags:
    """Where an operator's word on nodes goes."""
    return cast("Control", request.app.state.control).flags


def refusals(request: Request) -> Refusals:
    """Who was turned away."""
    return cast("Control", request.app.state.control).refusals


Ready = Annotated[Readiness, Depends(ready)]
Fleet = Annotated[FleetViews, Depends(fleet)]
Logs = Annotated[NodeLogs, Depends(logs)]
Flags = Annotated[NodeFlags, Depends(flags)]
TurnedAway = Annotated[Refusals, Depends(refusals)]
