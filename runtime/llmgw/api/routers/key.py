"""``/keys``: what programs show to be let in."""

from __future__ import annotations

from fastapi import APIRouter

from llmgw.accounts.keys import KeyWish, MadeKey
from llmgw.api.account_ports import KeyDesk
from llmgw.api.acting import Acting
from llmgw.api.deps import Keys, Places
from llmgw.api.schemas.key import (
    Id,
    KeyIn,
    KeyLevelsOut,
    KeyOut,
    KeysOut,
    MadeKeyOut,
    MoveIn,
    RotateIn,
)
from llmgw.api.schemas.limit import LevelOut
from llmgw.domain.api_keys import ApiKey

router = APIRouter(tags=["keys"])


@router.get("/keys")
async def keys(desk: Keys, places: Places, project: str = "", user: Id = "") -> KeysOut:
    """Every key, revoked ones too, the oldest first; each filter narrows the list."""
    project_id = (await places.tree()).project(project).project_id if project else ""
    found = await desk.all(project_id=project_id, user_id=user)
    return KeysOut.model_validate({"keys": [_shown(desk, key) for key in found]})


@router.post("/keys", status_code=201)
async def create(desk: Keys, places: Places, act: Acting, wanted: KeyIn) -> MadeKeyOut:
    """Make a key; what opens is in this answer and can be had nowhere else."""
    act.after = wanted.model_dump(exclude_unset=True, mode="json")
    wish = KeyWish(
        name=wanted.name,
        project_id=(await places.tree()).project(wanted.project).project_id,
        user_id=wanted.user,
        band=wanted.band,
        expires_at=wanted.expires_at,
        limits=wanted.limits.values(),
        claim_s=wanted.claim_s,
    )
    made = await desk.create(wish, actor=act.actor)
    act.target = made.key.key_id
    return _made(desk, made)


@router.get("/keys/{key}")
async def key(desk: Keys, places: Places, key: Id) -> KeyLevelsOut:
    """One key, by its id or its begin, and every level of limits above it."""
    chain = await places.chain((await desk.find(key)).key_id)
    levels = [LevelOut.of(level) for level in chain.levels]
    return KeyLevelsOut.model_validate({"key": _shown(desk, chain.key), "levels": levels})


@router.post("/keys/{key}/rotate")
async def rotate(desk: Keys, act: Acting, key: Id, wanted: RotateIn) -> MadeKeyOut:
    """Give it another secret; its id, its limits and what it used stay."""
    found = await desk.find(key)
    act.target, act.after = found.key_id, wanted.model_dump()
    made = await desk.rotate(
        found.key_id, actor=act.actor, overlap_s=wanted.overlap_s, claim_s=wanted.claim_s
    )
    return _made(desk, made)


@router.post("/keys/{key}/revoke")
async def revoke(desk: Keys, act: Acting, key: Id) -> KeyOut:
    """Let it open nothing any more; gateways that know it hear of it within auth.cache_ttl."""
    found = await desk.find(key)
    act.target = found.key_id
    return _shown(desk, await desk.revoke(found.key_id, actor=act.actor))


@router.post("/keys/{key}/move")
async def move(desk: Keys, places: Places, act: Acting, key: Id, wanted: MoveIn) -> KeyOut:
    """Put it into another project, below the limits there; what it used goes along."""
    found, tree = await desk.find(key), await places.tree()
    project_id = tree.project(wanted.project).project_id
    act.target = found.key_id
    act.before, act.after = {"project": found.project_id}, {"project": project_id}
    return _shown(desk, await desk.move(found.key_id, project_id=project_id, actor=act.actor))


def _shown(desk: KeyDesk, key: ApiKey) -> KeyOut:
    names = set(KeyOut.model_fields) - {"state"}
    shown = {name: getattr(key, name) for name in names}
    return KeyOut.model_validate({**shown, "state": desk.state_of(key)})


def _made(desk: KeyDesk, made: MadeKey) -> MadeKeyOut:
    claim = made.claim
    return MadeKeyOut.model_validate(
        {
            "key": _shown(desk, made.key),
            "secret": None if claim else made.secret,
            "claim_token": claim.token if claim else None,
            "claim_until": claim.claim.expires_at if claim else None,
        }
    )
