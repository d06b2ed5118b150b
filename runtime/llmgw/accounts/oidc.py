"""Login elsewhere: OpenID Connect, authorization code with PKCE, groups that become projects.

The pages ask it twice: when a browser is sent to the provider, and when it comes back. What must
be remembered between the two is sealed into a cookie, so that any server of a pair may finish what
another began, and nobody fills a table here.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from llmgw.accounts import id_tokens, signing_in
from llmgw.accounts.id_tokens import Expected
from llmgw.accounts.issuer import Client, Issuer
from llmgw.accounts.ports import People
from llmgw.domain import people
from llmgw.domain.people import User, UserState
from llmgw.domain.stored import AuditEntry
from llmgw.errors import Denied, LoginKeyUnknown, LoginRefused
from llmgw.kit import logs
from llmgw.kit.clock import Clock

LOGIN_WITHIN_S = 600.0
"""How long a person may take at the provider."""

_NONCE_BYTES = 12
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Admission:
    """Who of those whom the provider vouches for is let in, and where to."""

    projects: Mapping[str, str] = field(default_factory=dict)
    """Project ids by group; the first group of a person counts. Empty: everybody waits for
    approval."""
    groups_claim: str = "groups"
    scopes: tuple[str, ...] = ("openid", "email", "profile")


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a browser is sent, and what it must bring back."""

    url: str
    cookie: str


class OidcLogin:
    """Logins by one provider."""

    def __init__(
        self, client: Client, *, issuer: Issuer, admission: Admission, users: People, clock: Clock
    ) -> None:
        """``issuer`` is asked as ``client``."""
        self._client = client
        self._issuer = issuer
        self._admission = admission
        self._users = users
        self._clock = clock

    async def begin(self, *, redirect_uri: str) -> Departure:
        """Send a browser away; ``Unreachable`` where the provider does not answer."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        query = {
            "response_type": "code",
            "client_id": self._client.client_id,
            "redirect_uri": redirect_uri,
            "scope": " ".join(self._admission.scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": _challenge(verifier),
            "code_challenge_method": "S256",
        }
        place = await self._issuer.authorization()
        joint = "&" if urlsplit(place).query else "?"
        kept = {
            "state": state,
            "nonce": nonce,
            "verifier": verifier,
            "redirect_uri": redirect_uri,
            "until": self._clock.wall() + LOGIN_WITHIN_S,
        }
        return Departure(url=f"{place}{joint}{urlencode(query)}", cookie=self._sealed(kept))

    async def finish(self, *, state: str, code: str, cookie: str) -> User:
        """Who came back; ``LoginRefused`` where that proves nothing, ``Denied`` to strangers.

        A person who is new here gets an account: active where a group says which project, waiting
        for approval otherwise.
        """
        kept = self._opened(cookie)
        if not hmac.compare_digest(state.encode(), str(kept["state"]).encode()):
            raise LoginRefused("this login was not begun by this browser; begin again")
        token = await self._issuer.id_token(
            code=code, verifier=kept["verifier"], redirect_uri=kept["redirect_uri"]
        )
        told = await self._claims(token, nonce=kept["nonce"])
        return await self._person(told)

    async def _claims(self, token: str, *, nonce: str) -> Mapping[str, Any]:
        expected = Expected(self._client.issuer, client_id=self._client.client_id, nonce=nonce)
        now = self._clock.wall()
        try:
            keys = await self._issuer.keys()
            return id_tokens.claims(token, keys=keys, expected=expected, now=now)
        except LoginKeyUnknown:
            keys = await self._issuer.keys(is_anew=True)
            return id_tokens.claims(token, keys=keys, expected=expected, now=now)

    async def _person(self, told: Mapping[str, Any]) -> User:
        project_id = self._project(told)
        known = await self._users.by_subject(issuer=self._client.issuer, subject=told["sub"])
        if known is None:
            return await self._newcomer(told, project_id=project_id)
        if known.state is UserState.PENDING and project_id:
            return await self._users.approve(
                known.user_id,
                project_id=project_id,
                by=self._by,
                at=self._clock.wall(),
                entry=self._entry("user.approve", known.user_id, project_id=project_id),
            )
        if known.state is UserState.ACTIVE and project_id not in {"", known.project_id}:
            return await self._users.set_project(
                known.user_id,
                project_id=project_id,
                entry=self._entry("user.move", known.user_id, project_id=project_id),
            )
        return known

    async def _newcomer(self, told: Mapping[str, Any], *, project_id: str) -> User:
        """Never joined to an account that is there: whoever made that one could wait in it."""
        email = people.normalise_email(str(told.get("email", "")))
        if told.get("email_verified") is not True:
            raise Denied(f"the provider of logins does not vouch for the address {email}")
        now = self._clock.wall()
        user = User(
            user_id=signing_in.new_user_id(),
            email=email,
            name=str(told.get("name") or email)[: people.LONGEST_NAME],
            state=UserState.ACTIVE if project_id else UserState.PENDING,
            created_at=now,
            project_id=project_id,
            approved_by=self._by if project_id else "",
            approved_at=now if project_id else None,
            issuer=self._client.issuer,
            subject=told["sub"],
        )
        entry = self._entry("user.create", user.user_id, project_id=project_id)
        await self._users.add(user, entry=entry)
        _log.info("account_by_login", user=user.user_id, email=email, state=str(user.state))
        return user

    def _project(self, told: Mapping[str, Any]) -> str:
        """The project of the first of a person's groups; nobody else gets in where some have."""
        projects = self._admission.projects
        if not projects:
            return ""
        groups = told.get(self._admission.groups_claim)
        held = set(map(str, groups if isinstance(groups, list) else [groups]))
        found = next((projects[name] for name in projects if name in held), "")
        if not found:
            raise Denied("none of your groups may use this cluster; ask an administrator")
        return found

    @property
    def _by(self) -> str:
        return f"oidc:{self._client.issuer}"

    def _entry(self, action: str, user_id: str, *, project_id: str) -> AuditEntry:
        return AuditEntry(
            at=self._clock.wall(),
            actor=self._by,
            origin="page",
            action=action,
            target=user_id,
            outcome="done",
            after={"project_id": project_id} if project_id else None,
        )

    def _sealed(self, kept: Mapping[str, object]) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = AESGCM(self._key()).encrypt(nonce, json.dumps(kept).encode(), None)
        return base64.urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def _opened(self, cookie: str) -> Mapping[str, Any]:
        gone = LoginRefused("this login was not begun by this browser, or long ago; begin again")
        try:
            raw = base64.urlsafe_b64decode(cookie.encode() + b"=" * (-len(cookie) % 4))
            opened = AESGCM(self._key()).decrypt(raw[:_NONCE_BYTES], raw[_NONCE_BYTES:], None)
        except (binascii.Error, ValueError, InvalidTag) as error:
            raise gone from error
        kept: Mapping[str, Any] = json.loads(opened)
        if kept["until"] < self._clock.wall():
            raise gone
        return kept

    def _key(self) -> bytes:
        """The same on all servers with these settings, and of no use for anything else."""
        made = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"llmgw oidc login")
        return made.derive(self._client.secret().encode())


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
