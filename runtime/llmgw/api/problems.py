"""Turns whatever went wrong into the one error body of the admin API, with a status by its kind."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from llmgw.api.schemas.problem import DetailOut, ErrorOut, ProblemOut
from llmgw.errors import (
    CatalogInvalid,
    DeadlinePassed,
    Invalid,
    Kind,
    LlmgwError,
    NoStore,
    Problem,
    SettingsInvalid,
    Standby,
)

RETRY_AFTER_S = 5
"""What a client is told when asking again may help: about one pass of the reconciler."""

_STATUS_BY_KIND: Mapping[Kind, HTTPStatus] = {
    Kind.INVALID: HTTPStatus.BAD_REQUEST,
    Kind.UNAUTHENTICATED: HTTPStatus.UNAUTHORIZED,
    Kind.DENIED: HTTPStatus.FORBIDDEN,
    Kind.UNKNOWN: HTTPStatus.NOT_FOUND,
    Kind.CONFLICT: HTTPStatus.CONFLICT,
    Kind.EXHAUSTED: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
}

_STATUS_BY_CLASS: Mapping[type[LlmgwError], HTTPStatus] = {
    DeadlinePassed: HTTPStatus.GATEWAY_TIMEOUT,
    NoStore: HTTPStatus.NOT_IMPLEMENTED,
    Standby: HTTPStatus.CONFLICT,
}
"""Where the class says more than its kind."""

_CODES_OF_HTTP: Mapping[int, tuple[str, Kind]] = {
    HTTPStatus.NOT_FOUND: ("no_such_route", Kind.UNKNOWN),
    HTTPStatus.METHOD_NOT_ALLOWED: ("method_not_allowed", Kind.INVALID),
}


def install(app: FastAPI) -> None:
    """Let ``app`` answer every failure in our shape."""
    app.add_exception_handler(LlmgwError, _ours)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _of_framework)


def answer(error: LlmgwError, *, request_id: str) -> JSONResponse:
    """The body of one of our errors, for who answers outside the routes."""
    return _from_error(error, request_id=request_id)


def unexpected(*, request_id: str) -> JSONResponse:
    """A fault of our own: its text stays in the log, under the request's id."""
    return _body(
        status=HTTPStatus.INTERNAL_SERVER_ERROR,
        problem=ProblemOut(
            code="internal",
            kind=Kind.INTERNAL,
            message="the server failed on this request; its log has the cause under the request id",
            request_id=request_id,
        ),
    )


async def _ours(request: Request, error: Exception) -> Response:
    request.state.refused = cast("LlmgwError", error).code
    return _from_error(cast("LlmgwError", error), request_id=request.state.request_id)


async def _validation(request: Request, error: Exception) -> Response:
    found = cast("RequestValidationError", error).errors()
    problems = [Problem(path=".".join(map(str, p["loc"])), message=p["msg"]) for p in found]
    return _body(
        status=HTTPStatus.BAD_REQUEST,
        problem=ProblemOut(
            code=Invalid.code,
            kind=Kind.INVALID,
            message=f"the request has {len(problems)} mistake(s)",
            details=_details(problems),
            request_id=request.state.request_id,
        ),
    )


async def _of_framework(request: Request, error: Exception) -> Response:
    raised = cast("HTTPException", error)
    code, kind = _CODES_OF_HTTP.get(raised.status_code, ("invalid", Kind.INVALID))
    return _body(
        status=HTTPStatus(raised.status_code),
        problem=ProblemOut(
            code=code,
            kind=kind,
            message=f"{raised.detail}: {request.method} {request.url.path}",
            request_id=request.state.request_id,
        ),
        headers=raised.headers,
    )


def _from_error(error: LlmgwError, *, request_id: str) -> JSONResponse:
    problems = error.problems if isinstance(error, (SettingsInvalid, CatalogInvalid)) else ()
    return _body(
        status=status_of(error),
        problem=ProblemOut(
            code=error.code,
            kind=error.kind,
            message=error.message,
            details=_details(problems),
            leader=error.leader if isinstance(error, Standby) else "",
            request_id=request_id,
        ),
        headers={"retry-after": str(RETRY_AFTER_S)} if error.retryable else None,
    )


def status_of(error: LlmgwError) -> HTTPStatus:
    """The status of one of our errors."""
    return _STATUS_BY_CLASS.get(type(error), _STATUS_BY_KIND[error.kind])


def _details(problems: list[Problem] | tuple[Problem, ...]) -> tuple[DetailOut, ...]:
    return tuple(DetailOut(path=p.path, problem=p.message) for p in problems)


def _body(
    *, status: HTTPStatus, problem: ProblemOut, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    content = ErrorOut(error=problem).model_dump(mode="json")
    return JSONResponse(content, status_code=status, headers=headers)
