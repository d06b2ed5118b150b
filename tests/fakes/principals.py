"""Owners of keys as tests need them: a chain of levels, each with the limits that are named."""

from __future__ import annotations

from llmgw.domain.principals import SCOPES, Level, Principal


def principal(
    key_id="k1",
    *,
    team="t1",
    project="p1",
    org="o1",
    band=None,
    models=None,
    expires_at=None,
    **limits,
):
    """A key below ``org``; ``limits`` are dicts by scope, such as ``team={"rpm": 3}``."""
    ids = {"org": org, "team": team, "project": project, "key": key_id}
    for_scopes = {name.removesuffix("_limits"): value for name, value in limits.items()}
    levels = tuple(
        Level(scope=scope, scope_id=ids[scope], **for_scopes.pop(scope, {})) for scope in SCOPES
    )
    assert for_scopes == {}, "limits of a scope that is none"
    return Principal(
        key_id=key_id,
        name=f"name of {key_id}",
        project_id=project,
        team_id=team,
        org_id=org,
        user_id=None,
        band=band,
        models=models,
        levels=levels,
        expires_at=expires_at,
    )
