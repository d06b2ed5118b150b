"""A small tree, people and keys to fill a store with."""

from __future__ import annotations

import dataclasses

from llmgw.domain.api_keys import ApiKey
from llmgw.domain.people import Session, User, UserState
from llmgw.domain.tenancy import Org, Project, Team

ORG = Org("o1", "acme", created_at=1.0)
TEAM = Team("t1", "o1", "research", created_at=1.5)
PROJECT = Project("p1", "t1", "chat", created_at=2.0)
OTHER = Project("p2", "t1", "batch", created_at=2.0)

ANN = User(
    user_id="u1",
    email="ann@example.org",
    name="Ann",
    state=UserState.PENDING,
    created_at=3.0,
    password_hash="$argon2id$",
)


def key(key_id="k1", **given):
    """A key of the first project; its hash is made of its id."""
    made = ApiKey(
        key_id=key_id,
        key_hash=f"hash of {key_id}",
        prefix="sk-abcdefgh",
        name="notebook",
        project_id=PROJECT.project_id,
        created_at=5.0,
        created_by="ann",
    )
    return dataclasses.replace(made, **given)


def session(token="s1", **given):
    made = Session(
        token_hash=token,
        user_id=ANN.user_id,
        csrf_hash="c1",
        created_at=10.0,
        expires_at=100.0,
        last_seen_at=10.0,
    )
    return dataclasses.replace(made, **given)


async def plant(store):
    """The tree alone."""
    await store.tree.found(ORG, TEAM, PROJECT)
    await store.tree.add(OTHER)


async def let_in(store, user=ANN):
    """A person who is active in the first project."""
    await store.people.add(user)
    return await store.people.approve(
        user.user_id, project_id=PROJECT.project_id, by="root", at=4.0
    )
