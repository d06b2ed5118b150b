"""What one request does, and who asks for it; a route tells more of it where the path does not.

The auditor makes an ``Act`` for each request and keeps it when the answer is known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from fastapi import Depends, Request
from starlette.datastructures import Headers

from llmgw.domain.actors import ACTOR_HEADER, NOBODY, ORIGIN_HEADER, Actor

ASKS_ONLY: Final[dict[str, Any]] = {"x-llmgw-asks-only": True}
"""``openapi_extra`` of a route that is no GET and changes nothing: a standby answers it too."""

_ORIGINS = frozenset({"cli", "page"})
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_NAME = re.compile(r"[\w.@+-]{1,64}")


@dataclass(slots=True)
class Act:
    """One request as the log of acts will tell it; empty is: as the route is called."""

    actor: Actor
    action: str = ""
    target: str = ""
    before: Mapping[str, object] | None = None
    after: Mapping[str, object] | None = None
    changes_nothing: bool = False
    """It was only tried, so that there is nothing to tell."""


def act_of(request: Request) -> Act:
    """The act of this request."""
    return cast("Act", request.state.act)


Acting = Annotated[Act, Depends(act_of)]


def actor(headers: Headers, *, request_id: str) -> Actor:
    """Who asks, by its own word."""
    said, origin = headers.get(ACTOR_HEADER, ""), headers.get(ORIGIN_HEADER, "")
    return Actor(
        name=said if _NAME.fullmatch(said) else NOBODY,
        origin=origin if origin in _ORIGINS else "api",
        request_id=request_id,
    )


def is_write(*, method: str, openapi_extra: Mapping[str, Any] | None) -> bool:
    """Whether a route changes something, so that a standby refuses it and it is told of."""
    return method not in _READING and not (openapi_extra or {}).keys() & ASKS_ONLY.keys()
