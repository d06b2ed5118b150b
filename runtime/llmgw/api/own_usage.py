"""What the owner of a key sees of it: ``GET /me`` and ``GET /v1/usage``, for programs.

Behind the socket of the pages, where the gateway says whose key it was. Answers and errors are in
the shape of OpenAI's API, since its clients ask.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from llmgw.domain import limits
from llmgw.domain.api_keys import KeyChain
from llmgw.domain.principals import Level, Scope, compose
from llmgw.domain.usage_reports import Grouping, Span, UsageSum
from llmgw.errors import Invalid, LlmgwError, Unauthenticated, Unavailable
from llmgw.kit.clock import Clock

PRINCIPAL_HEADER: Final = "x-llmgw-principal"
_GROUPINGS: Final = ("model", "day")
_MOST: Final = 1000
_LATEST: Final = 4_102_444_800.0
_RETRY_AFTER_S: Final = "5"

_ANSWERS: Final[Sequence[tuple[type[LlmgwError], HTTPStatus, str, str]]] = (
    (Invalid, HTTPStatus.BAD_REQUEST, "invalid_request_error", "invalid_field"),
    (Unauthenticated, HTTPStatus.UNAUTHORIZED, "authentication_error", "invalid_api_key"),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable_error", "auth_unavailable"),
    (LlmgwError, HTTPStatus.INTERNAL_SERVER_ERROR, "server_error", "internal"),
)
_AWAY: Final = "What was used cannot be looked up now; try again soon."


class Chains(Protocol):
    """Keys with what is above them; ``accounts.directory.Directory`` fits."""

    async def chain(self, key_id: str) -> KeyChain:
        """One key; ``Unknown`` when there is no such."""
        ...


class Sums(Protocol):
    """Sums of usage; ``store.usage_sums_repo.UsageSumsRepo`` fits."""

    async def report(
        self, by: Grouping, span: Span, *, key_id: str = "", limit: int = ...
    ) -> Sequence[UsageSum]:
        """Sums by whose it is."""
        ...

    async def spent_at(self, scope: Scope, scope_id: str, *, since: float) -> int:
        """What all keys below one place have spent."""
        ...


class OwnUsage:
    """The two routes."""

    def __init__(self, *, chains: Chains, sums: Sums, clock: Clock) -> None:
        """Over one store."""
        self._chains = chains
        self._sums = sums
        self._clock = clock

    def routes(self) -> Sequence[Route]:
        """For the application of the pages."""
        return [
            Route("/me", self._me, methods=["GET"]),
            Route("/v1/usage", self._usage, methods=["GET"]),
        ]

    async def _me(self, request: Request) -> Response:
        try:
            return JSONResponse(await self._told(_key_id(request)))
        except LlmgwError as error:
            return _refused(error)

    async def _usage(self, request: Request) -> Response:
        try:
            return JSONResponse(await self._used(request))
        except LlmgwError as error:
            return _refused(error)

    async def _told(self, key_id: str) -> Mapping[str, Any]:
        chain = await self._chains.chain(key_id)
        key, composed = chain.key, compose(chain.levels)
        limiting = [await self._level(one) for one in chain.levels if one.is_limiting]
        left = [one["budget_left_micros"] for one in limiting if "budget_left_micros" in one]
        return {
            "object": "key",
            "id": key.key_id,
            "name": key.name,
            "project": key.project_id,
            "team": chain.team_id,
            "org": chain.org_id,
            "user": key.user_id,
            "band": key.band,
            "created": int(key.created_at),
            "expires_at": key.expires_at,
            "models": None if composed.models is None else sorted(composed.models),
            "budget_left_micros": min(left, default=None),
            "limits": limiting,
        }

    async def _level(self, level: Level) -> dict[str, Any]:
        """What limits here, and what of a budget is spent; absent where nothing limits."""
        told: dict[str, Any] = {"scope": level.scope, "id": level.scope_id}
        for name in ("rpm", "tpm", "concurrency"):
            if (limit := getattr(level, name)) is not None:
                told[name] = limit
        if level.models is not None:
            told["models"] = sorted(level.models)
        if level.budget is not None:
            since = limits.period_start(level.period, self._clock.wall())
            spent = await self._sums.spent_at(level.scope, level.scope_id, since=since)
            told |= {
                "budget_micros": level.budget,
                "period": level.period,
                "spent_micros": spent,
                "budget_left_micros": max(level.budget - spent, 0),
            }
        return told

    async def _used(self, request: Request) -> Mapping[str, Any]:
        key_id, asked = _key_id(request), request.query_params
        by = asked.get("by", "model")
        if by not in _GROUPINGS:
            raise Invalid(f"by: {by[:40]!r} is not one of {', '.join(_GROUPINGS)}")
        span = Span(
            since=_moment(asked.get("since"), name="since") or 0.0,
            until=_moment(asked.get("until"), name="until"),
        ).in_hours()
        groups = await self._sums.report(cast("Grouping", by), span, key_id=key_id, limit=_MOST)
        return {
            "object": "usage",
            "key": key_id,
            "by": by,
            "since": span.since,
            "until": span.until,
            "data": [_sum(one, by) for one in groups],
        }


def _sum(one: UsageSum, by: str) -> Mapping[str, Any]:
    amounts = one.amounts
    return {
        by: one.group_id,
        "requests": amounts.requests,
        "failed": amounts.failed,
        "aborted": amounts.aborted,
        "lost": amounts.lost,
        "estimated": amounts.estimated,
        "prompt_tokens": amounts.prompt_tokens,
        "completion_tokens": amounts.completion_tokens,
        "cached_tokens": amounts.cached_tokens,
        "cost_micros": amounts.cost_micros,
    }


def _key_id(request: Request) -> str:
    """Whose key the gateway saw; nobody else reaches this socket."""
    key_id = request.headers.get(PRINCIPAL_HEADER, "")
    if not key_id:
        raise Unauthenticated("show your key: Authorization: Bearer sk-…")
    return key_id


def _moment(written: str | None, *, name: str) -> float | None:
    """Seconds since 1970, or a time as 2026-11-30T09:00, of UTC where it does not say."""
    if not written:
        return None
    try:
        at = float(written)
    except ValueError:
        try:
            moment = dt.datetime.fromisoformat(written)
        except ValueError:
            raise Invalid(f"{name}: {written[:40]!r} is no time, such as 2026-11-30") from None
        at = (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
    if not math.isfinite(at) or not 0 <= at <= _LATEST:
        raise Invalid(f"{name}: {written[:40]!r} is no time after 1970")
    return at


def _refused(error: LlmgwError) -> Response:
    status, word, code = next(row[1:] for row in _ANSWERS if isinstance(error, row[0]))
    message = error.message if status < HTTPStatus.INTERNAL_SERVER_ERROR else _AWAY
    body = {"error": {"message": message, "type": word, "param": None, "code": code}}
    retry = {"retry-after": _RETRY_AFTER_S} if error.retryable else {}
    return JSONResponse(body, status_code=status, headers=retry)
