"""``/health`` and ``/ready``: for load balancers and supervisors; never under the API's prefix."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Response

from llmgw.api.deps import Ready
from llmgw.api.schemas.probe import HealthOut, ReadyOut

router = APIRouter(tags=["probes"])


@router.head("/health", include_in_schema=False)
@router.get("/health")
async def health() -> HealthOut:
    """The process lives and its loop turns."""
    return HealthOut()


@router.head("/ready", include_in_schema=False)
@router.get("/ready")
async def ready(readiness: Ready, response: Response) -> ReadyOut:
    """200 when traffic should be sent here, else 503 with what is missing."""
    obstacles = tuple(readiness.obstacles())
    if obstacles:
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
    return ReadyOut(is_ready=not obstacles, obstacles=obstacles)
