"""How a route gets what it asks: the ports that the application was made with."""

from __future__ import annotations

from typing import Annotated, TypeVar, cast

from fastapi import Depends, FastAPI, Request

from llmgw.api import account_ports, ports
from llmgw.api.ports import (
    Control,
    EngineChecks,
    FleetViews,
    MetricsPage,
    NodeDownloads,
    NodeFlags,
    NodeLogs,
    Readiness,
    Refusals,
)
from llmgw.errors import NoStore

_DeskT = TypeVar("_DeskT")


def bind(
    app: FastAPI, *, readiness: Readiness, control: Control | None, figures: MetricsPage | None
) -> None:
    """Give ``app`` its ports; without one it must have no route that asks for it."""
    app.state.readiness = readiness
    app.state.control = control
    app.state.figures = figures


def ready(request: Request) -> Readiness:
    """The readiness of this process."""
    return cast("Readiness", request.app.state.readiness)


def fleet(request: Request) -> FleetViews:
    """The fleet's views."""
    return cast("Control", request.app.state.control).fleet


def logs(request: Request) -> NodeLogs:
    """The logs of nodes."""
    return cast("Control", request.app.state.control).logs


def checks(request: Request) -> EngineChecks:
    """The engines of nodes."""
    return cast("Control", request.app.state.control).checks


def flags(request: Request) -> NodeFlags:
    """Where an operator's word on nodes goes."""
    return cast("Control", request.app.state.control).flags


def refusals(request: Request) -> Refusals:
    """Who was turned away."""
    return cast("Control", request.app.state.control).refusals


def downloads(request: Request) -> NodeDownloads:
    """The downloads of nodes."""
    return cast("Control", request.app.state.control).downloads


def plans(request: Request) -> ports.Plans:
    """What passes would do."""
    return cast("Control", request.app.state.control).plans


def bundles(request: Request) -> ports.Bundles:
    """What somebody who helps has to see."""
    return cast("Control", request.app.state.control).bundles


def rolls(request: Request) -> ports.Rolls:
    """Where an operator's word on models goes."""
    return cast("Control", request.app.state.control).rolls


def catalogs(request: Request) -> ports.Catalogs:
    """The catalog."""
    return cast("Control", request.app.state.control).catalogs


def leads(request: Request) -> ports.Lead:
    """How this control plane stands."""
    return cast("Control", request.app.state.control).lead


def audit_log(request: Request) -> ports.Audit:
    """The log of acts."""
    return cast("Control", request.app.state.control).audit


def brakes(request: Request) -> ports.Brakes:
    """The brake on a mass loss."""
    return cast("Control", request.app.state.control).brakes


def measurements(request: Request) -> ports.Measurements:
    """What was measured."""
    return cast("Control", request.app.state.control).measurements


def decisions(request: Request) -> ports.Decisions:
    """What passes did."""
    return cast("Control", request.app.state.control).decisions


def usage_books(request: Request) -> ports.UsageBooks:
    """The account of what was used."""
    return cast("Control", request.app.state.control).usage


def key_desk(request: Request) -> account_ports.KeyDesk:
    """The life of keys; ``NoStore`` where none are kept."""
    return _kept(cast("Control", request.app.state.control).keys)


def tree_desk(request: Request) -> account_ports.TreeDesk:
    """Places and limits; ``NoStore`` where none are kept."""
    return _kept(cast("Control", request.app.state.control).tree)


def user_desk(request: Request) -> account_ports.UserDesk:
    """Who may sign in; ``NoStore`` where nobody is kept."""
    return _kept(cast("Control", request.app.state.control).people)


def metrics_page(request: Request) -> MetricsPage:
    """The figures of the gateway."""
    return cast("MetricsPage", request.app.state.figures)


def _kept(desk: _DeskT | None) -> _DeskT:
    if desk is None:
        raise NoStore("this server has no store, so it has no people and no keys; set auth.store")
    return desk


Ready = Annotated[Readiness, Depends(ready)]
Fleet = Annotated[FleetViews, Depends(fleet)]
Logs = Annotated[NodeLogs, Depends(logs)]
Checks = Annotated[EngineChecks, Depends(checks)]
Flags = Annotated[NodeFlags, Depends(flags)]
Figures = Annotated[MetricsPage, Depends(metrics_page)]
TurnedAway = Annotated[Refusals, Depends(refusals)]
Downloads = Annotated[NodeDownloads, Depends(downloads)]
Plans = Annotated[ports.Plans, Depends(plans)]
Bundles = Annotated[ports.Bundles, Depends(bundles)]
Rolls = Annotated[ports.Rolls, Depends(rolls)]
Catalogs = Annotated[ports.Catalogs, Depends(catalogs)]
Leads = Annotated[ports.Lead, Depends(leads)]
AuditLog = Annotated[ports.Audit, Depends(audit_log)]
Brakes = Annotated[ports.Brakes, Depends(brakes)]
Measured = Annotated[ports.Measurements, Depends(measurements)]
Decided = Annotated[ports.Decisions, Depends(decisions)]
Used = Annotated[ports.UsageBooks, Depends(usage_books)]
Keys = Annotated[account_ports.KeyDesk, Depends(key_desk)]
People = Annotated[account_ports.UserDesk, Depends(user_desk)]
Places = Annotated[account_ports.TreeDesk, Depends(tree_desk)]
