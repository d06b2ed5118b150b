"""People as the admin API is asked for them and shows them; never a hash of a password."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from llmgw.api.schemas.from_view import FromView
from llmgw.domain.people import UserState

Who = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+@-]{1,254}$")]
"""A person's id or address."""

Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=200)]


class UserIn(BaseModel):
    """An account that is to be made, active at once."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    email: Line
    name: Line = Field(default="", description="The address where it is empty.")
    project: Line = Field(default="default", description="Id, name or path.")


class ApproveIn(BaseModel):
    """Where a person goes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project: Line = Field(default="default", description="Id, name or path.")


class UserOut(FromView):
    """One person."""

    user_id: str
    email: str
    name: str
    state: UserState
    is_admin: bool
    project_id: str = Field(description="Empty until it is approved.")
    created_at: float
    last_login_at: float | None
    approved_by: str
    approved_at: float | None
    issuer: str = Field(description="Who vouches for it, where it signs in elsewhere.")


class UsersOut(FromView):
    """In the order of their addresses."""

    users: tuple[UserOut, ...]


class IssuedUserOut(FromView):
    """A person, and the password that was made up for it, which nobody can be told again."""

    user: UserOut
    password: str | None = Field(repr=False)
