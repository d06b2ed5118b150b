"""``/usage``: what was used, by whom, and what it cost."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from llmgw.api.deps import Used
from llmgw.api.schemas.usage import CheckIn, ChecksOut, SpanIn, UsageIn, UsageOut
from llmgw.domain.usage_reports import Span
from llmgw.domain.usage_rows import UsageRow

router = APIRouter(tags=["usage"])

MEDIA_TYPE = "text/csv"

_COLUMNS = (
    "time",
    "request_id",
    "key_id",
    "user_id",
    "project_id",
    "model",
    "served_model",
    "endpoint",
    "node_id",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "cost_micros",
    "outcome",
    "is_estimated",
    "status",
    "ttft_ms",
    "latency_ms",
)


@router.get("/usage")
async def usage(books: Used, asked: Annotated[UsageIn, Query()]) -> UsageOut:
    """Sums by key, user, project, team, organisation, model or day; 501 without a store."""
    span = Span(since=asked.since, until=asked.until).in_hours()
    groups = await books.report(asked.by, span, key_id=asked.key, limit=asked.limit)
    found = {"by": asked.by, "since": span.since, "until": span.until, "groups": groups}
    return UsageOut.model_validate(found)


@router.get(
    "/usage/requests.csv",
    response_class=StreamingResponse,
    responses={200: {"content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def requests(books: Used, asked: Annotated[SpanIn, Query()]) -> StreamingResponse:
    """Every request of a time that is still kept, as it goes, a line each; 501 without a store."""
    pages = await books.rows(Span(since=asked.since, until=asked.until))
    return StreamingResponse(_lines(pages), media_type=f"{MEDIA_TYPE}; charset=utf-8")


@router.get("/usage/check")
async def check(books: Used, asked: Annotated[CheckIn, Query()]) -> ChecksOut:
    """Whether requests and their sums agree, day by day; reads every request of those days."""
    checks = await books.check(days=asked.days)
    found = {"agree": all(one.agrees for one in checks), "checks": checks}
    return ChecksOut.model_validate(found)


async def _lines(pages: AsyncIterator[Sequence[UsageRow]]) -> AsyncIterator[str]:
    yield _written([_COLUMNS])
    async for page in pages:
        yield _written([_cells(row) for row in page])


def _cells(row: UsageRow) -> tuple[object, ...]:
    moment = dt.datetime.fromtimestamp(row.at, tz=dt.UTC).isoformat(timespec="milliseconds")
    return (moment, *(_safe(getattr(row, name)) for name in _COLUMNS[1:]))


def _safe(value: object) -> object:
    """No text that a spreadsheet would take for a formula: clients choose some of them."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" and value else value


def _written(lines: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue()
