"""``/users``: who may sign in.

Administrators are made, and passwords reset, by commands alone: that takes the right to open the
store.
"""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.accounts.people_desk import Newcomer
from llmgw.api.acting import Acting
from llmgw.api.deps import People, Places
from llmgw.api.schemas.user import ApproveIn, IssuedUserOut, UserIn, UserOut, UsersOut, Who
from llmgw.domain.people import UserState

router = APIRouter(tags=["users"])


@router.get("/users")
async def users(desk: People, state: UserState | None = None) -> UsersOut:
    """Everybody who has an account or waits for one, in the order of their addresses."""
    return UsersOut.model_validate({"users": await desk.all(state=state)})


@router.post("/users", status_code=201)
async def create(desk: People, places: Places, act: Acting, wanted: UserIn) -> IssuedUserOut:
    """Make an account; its password is in this answer and can be had nowhere else."""
    act.target, act.after = wanted.email, wanted.model_dump()
    project_id = (await places.tree()).project(wanted.project).project_id
    newcomer = Newcomer(email=wanted.email, name=wanted.name, project_id=project_id)
    issued = await desk.create(newcomer, actor=act.actor)
    act.target = issued.user.user_id
    return IssuedUserOut.model_validate(issued)


@router.get("/users/{user}")
async def user(desk: People, user: Who) -> UserOut:
    """One person, by id or address."""
    return UserOut.model_validate(await desk.find(user))


@router.post("/users/{user}/approve")
async def approve(
    desk: People, places: Places, act: Acting, user: Who, wanted: ApproveIn
) -> UserOut:
    """Let somebody in who asked for an account, into a project."""
    act.after = wanted.model_dump()
    project_id = (await places.tree()).project(wanted.project).project_id
    return UserOut.model_validate(await desk.approve(user, project_id=project_id, actor=act.actor))


@router.post("/users/{user}/suspend")
async def suspend(desk: People, act: Acting, user: Who) -> UserOut:
    """Shut somebody out and end its sessions; its keys work on until they are revoked."""
    return UserOut.model_validate(await desk.suspend(user, actor=act.actor))


@router.post("/users/{user}/restore")
async def restore(desk: People, act: Acting, user: Who) -> UserOut:
    """Let somebody in again who was suspended; it has to sign in anew."""
    return UserOut.model_validate(await desk.restore(user, actor=act.actor))
