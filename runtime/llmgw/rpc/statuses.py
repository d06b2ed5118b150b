"""Carries our errors over gRPC: a ``Kind`` becomes a status, the ``code`` travels beside it.

The side that refuses calls ``refuse``, the refused side gets the same class from ``received``.
A status without our code did not come from our peer but from the transport.
"""

from __future__ import annotations

from typing import Any, NoReturn

import grpc
from grpc import aio

from llmgw.errors import (
    AlreadyHeld,
    Denied,
    IdentityMismatch,
    Internal,
    Invalid,
    Kind,
    LlmgwError,
    Standby,
    Superseded,
    Unauthenticated,
    Unavailable,
    Unknown,
)

CODE_KEY = "llmgw-code"
_MAX_SENTENCE_CHARS = 1500
"""Trailing headers have little room."""

_STATUSES = {
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.DENIED: grpc.StatusCode.PERMISSION_DENIED,
    Kind.UNKNOWN: grpc.StatusCode.NOT_FOUND,
    Kind.CONFLICT: grpc.StatusCode.FAILED_PRECONDITION,
    Kind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.INTERNAL: grpc.StatusCode.INTERNAL,
}
_CLASSES: dict[str, type[LlmgwError]] = {
    cls.code: cls
    for cls in (
        AlreadyHeld,
        Denied,
        IdentityMismatch,
        Internal,
        Invalid,
        Standby,
        Superseded,
        Unauthenticated,
        Unknown,
    )
}


async def refuse(context: aio.ServicerContext[Any, Any], error: LlmgwError) -> NoReturn:
    """End the call with this error; raises, as gRPC wants it."""
    await context.abort(
        _STATUSES[error.kind],
        error.message[:_MAX_SENTENCE_CHARS],
        trailing_metadata=((CODE_KEY, error.code),),
    )


def received(status: aio.AioRpcError) -> LlmgwError | None:
    """The error that the peer ended the call with; nothing when the transport ended it."""
    pairs: Any = status.trailing_metadata() or ()
    code = dict(pairs).get(CODE_KEY)
    if code is None:
        return None
    return _CLASSES.get(str(code), Unavailable)(status.details() or "refused without a reason")
