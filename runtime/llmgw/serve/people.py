"""Joins one store with what people do about their accounts, and administrators about people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import httpx

from llmgw.accounts.issuer import Client, Issuer
from llmgw.accounts.noting import Telling
from llmgw.accounts.oidc import Admission, OidcLogin
from llmgw.accounts.passwords import Passwords
from llmgw.accounts.people_desk import PeopleDesk
from llmgw.accounts.signing_in import Policy, SigningIn
from llmgw.config import secrets
from llmgw.config.settings import AuthSettings
from llmgw.config.vouching import OidcSettings
from llmgw.kit.clock import Clock
from llmgw.store.opening import Store


@dataclass(frozen=True, slots=True)
class People:
    """The people of one store."""

    accounts: SigningIn
    desk: PeopleDesk


def joined(store: Store, *, auth: AuthSettings, clock: Clock, telling: Telling) -> People:
    """What is done about people; what administrators do is told to ``telling``."""
    accounts = SigningIn(
        users=store.people,
        sessions=store.sessions,
        passwords=Passwords(),
        clock=clock,
        policy=Policy(
            session_ttl_s=auth.session_ttl_s,
            max_attempts=auth.max_attempts,
            attempt_window_s=auth.attempt_window_s,
        ),
    )
    return People(
        accounts=accounts,
        desk=PeopleDesk(store.people, accounts=accounts, telling=telling, clock=clock),
    )


def login(
    oidc: OidcSettings,
    *,
    store: Store,
    http: httpx.AsyncClient,
    clock: Clock,
    environ: Mapping[str, str],
) -> OidcLogin:
    """Login by the provider of the settings."""
    client = Client(
        issuer=oidc.issuer,
        client_id=oidc.client_id,
        secret=partial(secrets.resolve, oidc.client_secret, environ=environ),
    )
    return OidcLogin(
        client,
        issuer=Issuer(client, http=http, clock=clock),
        admission=Admission(
            projects=oidc.projects, groups_claim=oidc.groups_claim, scopes=oidc.scopes
        ),
        users=store.people,
        clock=clock,
    )
