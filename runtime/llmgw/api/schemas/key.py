"""Keys as the admin API is asked for them and shows them; never a hash."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from llmgw.accounts.keys import OVERLAP_S
from llmgw.api.schemas.from_view import FromView
from llmgw.api.schemas.limit import LevelOut, LimitsIn
from llmgw.domain.api_keys import KeyState

Id = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,100}$")]
"""What may name a key, a person or a place in a path; everything else has none of these names."""

_LATEST = 4102444800.0
_LONGEST_S = 30 * 86400.0


class KeyIn(BaseModel):
    """A key that is to be made."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=100, description="What it is for.")
    project: str = Field(default="default", max_length=400, description="Id, name or path.")
    user: Id | None = Field(default=None, description="Whose it is, by id.")
    band: str | None = Field(default=None, max_length=100)
    expires_at: float | None = Field(default=None, ge=0, le=_LATEST)
    limits: LimitsIn = LimitsIn()
    claim_s: float | None = Field(
        default=None,
        ge=60,
        le=_LONGEST_S,
        description="Seal it for a link that opens for so long, instead of showing it.",
    )


class RotateIn(BaseModel):
    """How a key gets another secret."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    overlap_s: float = Field(
        default=OVERLAP_S, ge=0, le=_LONGEST_S, description="How long the one before is good too."
    )
    claim_s: float | None = Field(default=None, ge=60, le=_LONGEST_S)


class MoveIn(BaseModel):
    """Where a key goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: str = Field(max_length=400, description="Id, name or path.")


class KeyOut(FromView):
    """One key."""

    key_id: str
    prefix: str = Field(description="The begin of its secret.")
    name: str
    project_id: str
    user_id: str | None
    band: str | None
    state: KeyState
    created_at: float
    created_by: str
    expires_at: float | None
    revoked_at: float | None
    last_used_at: float | None
    previous_until: float | None = Field(
        description="Until when its secret before the last rotation is good."
    )


class KeysOut(FromView):
    """The oldest first."""

    keys: tuple[KeyOut, ...]


class KeyLevelsOut(FromView):
    """A key and what is above it, the organisation first."""

    key: KeyOut
    levels: tuple[LevelOut, ...]


class MadeKeyOut(FromView):
    """A key with what nobody can be told again: its secret, or the token of the link to it."""

    key: KeyOut
    secret: str | None
    claim_token: str | None = Field(description="The link is the gateway's /claim/TOKEN.")
    claim_until: float | None
