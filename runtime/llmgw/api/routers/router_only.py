"""The whole API of a server that only routes: it says that there is no control plane."""

from __future__ import annotations

from typing import NoReturn

from fastapi import APIRouter

from llmgw.errors import NoControlPlane

router = APIRouter()


@router.api_route(
    "/{rest:path}",
    methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
    include_in_schema=False,
    response_model=None,
)
async def absent(rest: str) -> NoReturn:
    """404 for every path."""
    raise NoControlPlane(f"this server only routes, so it has no {rest!r}: no control plane here")
