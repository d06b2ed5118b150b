"""Makes the ASGI application of the admin listener.

``serve`` runs it; the listener is bound to loopback unless told otherwise, and asks for no login.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from fastapi import Depends, FastAPI

import llmgw
from llmgw.api import deps, problems, sections, standbys
from llmgw.api.auditing import Auditor
from llmgw.api.doorkeeping import Doorkeeper
from llmgw.api.edge import RequestEdge
from llmgw.api.ports import Control, MetricsPage, Readiness
from llmgw.api.routers import (
    audit,
    brake,
    capacity,
    catalog,
    decision,
    engine,
    engine_check,
    key,
    leader,
    limit,
    log,
    metrics,
    model,
    model_edit,
    node,
    place,
    placement,
    plan,
    probe,
    refusal,
    replica,
    router_only,
    status,
    support_bundle,
    usage,
    user,
    weight,
)
from llmgw.api.schemas.problem import ErrorOut
from llmgw.api.standbys import StandbySign

PREFIX = "/api/v1"

_NOUNS = (
    status,
    leader,
    node,
    engine_check,
    log,
    model_edit,  # its routes say more than a name
    model,
    catalog,
    placement,
    plan,
    replica,
    refusal,
    weight,
    engine,
    capacity,
    brake,
    decision,
    user,
    key,
    place,
    limit,
    usage,
    audit,
    support_bundle,
)

_ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorOut, "description": "The request cannot be answered."},
    "5XX": {"model": ErrorOut, "description": "The server cannot answer now."},
}


def create_app(
    *,
    readiness: Readiness,
    control: Control | None = None,
    figures: MetricsPage | None = None,
    names: Collection[str] = (),
) -> FastAPI:
    """The admin application; without ``control`` it is that of a server that only routes.

    With ``figures`` it has ``/metrics`` too.
    ``names`` are host names under which it may be asked, beside addresses and ``localhost``.
    """
    app = FastAPI(
        title="llmgw admin API",
        description="What programs and `llmgw ctl` ask a control plane. Every answer that is no "
        "success has the one shape `ErrorOut`; what is unknown is null, never 0.",
        openapi_tags=sections.described(),
        version=llmgw.__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,  # its page would be loaded from a foreign host
        redoc_url=None,
        responses=_ERRORS,
    )
    if control is not None:
        app.add_middleware(StandbySign, lead=control.lead)
        app.add_middleware(Auditor, audit=control.audit)
    app.add_middleware(Doorkeeper, names=names)
    app.add_middleware(RequestEdge)
    problems.install(app)
    deps.bind(app, readiness=readiness, control=control, figures=figures)
    app.include_router(probe.router)
    if figures is not None:
        app.include_router(metrics.router)
    if control is None:
        app.include_router(router_only.router, prefix=PREFIX)
    for noun in _NOUNS if control is not None else ():
        app.include_router(noun.router, prefix=PREFIX, dependencies=[Depends(standbys.check_write)])
    return app
