"""``/support-bundle``: what somebody who helps has to see, without what must not leave the site."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from llmgw.api.deps import Bundles

router = APIRouter(tags=["support"])

MEDIA_TYPE = "application/gzip"


@router.get(
    "/support-bundle",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}},
)
async def bundle(
    bundles: Bundles,
    passes: Annotated[
        int, Query(ge=0, le=10_000, description="How many of the last passes.")
    ] = 500,
) -> Response:
    """Settings, fleet, metrics and the journal of the last passes as a ``tar.gz``, redacted."""
    return Response(await bundles.support_bundle(passes=passes), media_type=MEDIA_TYPE)
