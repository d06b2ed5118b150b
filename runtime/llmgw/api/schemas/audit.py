"""The log of acts as the admin API is asked for it and shows it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from llmgw.api.schemas.from_view import FromView

MOST = 1000


class AuditIn(BaseModel):
    """Which entries are asked for; each narrows the list."""

    model_config = ConfigDict(extra="forbid")

    since: float | None = Field(default=None, description="Seconds since 1970.")
    actor: str = ""
    action: str = Field(default="", description="Such as `node.drain`.")
    target: str = ""
    before_id: int | None = Field(default=None, description="Older than this entry.")
    after_id: int | None = Field(default=None, description="Newer than this entry.")
    limit: int = Field(default=100, ge=1, le=MOST)


class AuditEntryOut(FromView):
    """Something that somebody did or was refused."""

    entry_id: int = Field(description="Rises with each entry; asked for by before_id and after_id.")
    at: float = Field(description="Seconds since 1970.")
    actor: str = Field(description="By its own word: the admin API asks for no login.")
    origin: str = Field(description="`cli`, `api`, `page`, or the room that acted by itself.")
    action: str = Field(description="A noun and a verb, such as `node.drain`.")
    target: str
    outcome: str = Field(description="`done`, or the code of the error that refused it.")
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    request_id: str


class AuditOut(FromView):
    """One page, the newest first."""

    entries: tuple[AuditEntryOut, ...]
