"""What an ID token says, believed only where its issuer signed it, for us, now, for this login.

OpenID Connect Core 1.0 §3.1.3.7. Pure: keys and time come in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from joserfc import jwk, jws, jwt
from joserfc.errors import BadSignatureError, JoseError

from llmgw.errors import LoginKeyUnknown, LoginRefused

ALGORITHMS = ("RS256", "PS256", "ES256", "RS384", "PS384", "ES384", "RS512", "PS512", "ES512")
"""Signatures by a key pair: with a shared secret, or none, anybody who knows us could sign."""

_LEEWAY_S = 60
_LONGEST_AGE_S = 600
_LONGEST = 65_536


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token of this login must say."""

    issuer: str
    client_id: str
    nonce: str


def claims(
    token: str, *, keys: Sequence[Mapping[str, Any]], expected: Expected, now: float
) -> Mapping[str, Any]:
    """What a token says; ``LoginKeyUnknown``, or ``LoginRefused`` with the reason."""
    if len(token) > _LONGEST:
        raise LoginRefused("the provider's token is too long")
    found = _verified(token, keys=keys)
    _check(found, expected=expected, now=now)
    return found


def _verified(token: str, *, keys: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    candidates = _candidates(token, keys)
    if not candidates:
        raise LoginKeyUnknown(
            "the provider's token is signed by a key that the provider does not list"
        )
    for key in candidates:
        try:
            return jwt.decode(token, jwk.import_key(dict(key)), algorithms=ALGORITHMS).claims
        except BadSignatureError:
            continue
        except (JoseError, ValueError) as error:
            raise LoginRefused("the provider's token cannot be read") from error
    raise LoginRefused("the provider's token is not signed by the provider")


def _candidates(token: str, keys: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The keys that may have signed: the named one, or where none is named all of its kind."""
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError) as error:
        raise LoginRefused("the provider's token cannot be read") from error
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS:
        raise LoginRefused(f"the provider's token is signed as {str(algorithm)[:16]!r}")
    kind = "EC" if str(algorithm).startswith("ES") else "RSA"
    return [
        key
        for key in keys
        if key.get("kty") == kind
        and key.get("use", "sig") == "sig"
        and key_id in {None, key.get("kid")}
    ]


def _check(found: Mapping[str, Any], *, expected: Expected, now: float) -> None:
    rules = jwt.JWTClaimsRegistry(
        now=int(now),
        leeway=_LEEWAY_S,
        iss={"essential": True, "value": expected.issuer},
        aud={"essential": True, "value": expected.client_id},
        exp={"essential": True},
        iat={"essential": True},
        sub={"essential": True},
        nonce={"essential": True, "value": expected.nonce},
    )
    try:
        rules.validate(dict(found))
    except (JoseError, ValueError) as error:
        raise LoginRefused(f"the provider's token is not for this login: {error}") from error
    audience, party = found["aud"], found.get("azp")
    is_shared = isinstance(audience, list) and len(audience) > 1
    if party != expected.client_id and (is_shared or party is not None):
        raise LoginRefused("the provider's token was made for somebody else")
    if now - found["iat"] > _LONGEST_AGE_S:
        raise LoginRefused("the provider's token is too old")
    if not isinstance(found["sub"], str):
        raise LoginRefused("the provider's token names nobody")
