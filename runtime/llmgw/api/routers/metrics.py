"""``/metrics``: the figures of all gateway workers together, as Prometheus reads them."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response

from llmgw.api.deps import Figures
from llmgw.api.ports import MetricsPage
from llmgw.kit import metrics

router = APIRouter(tags=["probes"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def page(figures: Figures) -> Response:
    """Counters, gauges and histograms in the text format of Prometheus."""
    return Response(await figures.metrics_page(), media_type=metrics.CONTENT_TYPE)


def create_app(figures: MetricsPage) -> FastAPI:
    """The application of a port that shows metrics and nothing else; every other path is 404."""
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.state.figures = figures
    app.include_router(router)
    return app
