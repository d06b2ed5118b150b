"""A provider of logins on loopback that signs real tokens, and can be told to misbehave.

It plays the person too: whoever follows its authorization address is signed in there at once.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable
from urllib.parse import parse_qs, parse_qsl, unquote, urlencode, urlsplit

from joserfc import jwk, jwt

SECRET = "the secret of the client"


class LoginProvider:
    """One provider; ``claims`` and ``sign`` may be changed by a test."""

    def __init__(self):
        self.url = ""
        self.person = {
            "sub": "subject-1",
            "email": "Ann@Example.org",
            "email_verified": True,
            "name": "Ann",
            "groups": ["everybody", "research"],
        }
        self.changed = {}
        """Claims of ID tokens that are not as they should be."""
        self.ways = ["client_secret_basic"]
        self.now: Callable[[], float] = time.time
        self.asked: list[str] = []
        self.is_away = False
        self.keys = []
        self.rotate()
        self._codes = {}
        self._server = None

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self):
        self._server.close()
        await self._server.wait_closed()

    def rotate(self, *, kind="EC"):
        """Sign with a new key from now on, and list no other; one for RSA takes its time."""
        number = secrets.token_hex(4)
        parameters = {"kid": number, "use": "sig"}
        made = (
            jwk.RSAKey.generate_key(2048, parameters)
            if kind == "RSA"
            else jwk.ECKey.generate_key("P-256", parameters)
        )
        self.key, self.algorithm = made, "RS256" if kind == "RSA" else "ES256"
        self.keys = [made.as_dict(private=False)]

    def authorize(self, url):
        """What the provider does with a browser that was sent to it: where it is sent back to."""
        asked = dict(parse_qsl(urlsplit(url).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(8)
        self._codes[code] = asked
        answer = urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{answer}"

    def token(self, asked):
        """The ID token of a login."""
        claims = {
            "iss": self.url,
            "aud": asked["client_id"],
            "iat": int(self.now()),
            "exp": int(self.now()) + 300,
            "nonce": asked["nonce"],
            **self.person,
            **self.changed,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        header = {"alg": self.algorithm, "kid": self.key.kid}
        return jwt.encode(header, claims, self.key, algorithms=[self.algorithm])

    async def _serve(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *fields = head.split("\r\n")
            headers = dict(field.lower().split(": ", 1) for field in fields if field)
            plain = dict(field.split(": ", 1) for field in fields if field)
            body = (await reader.readexactly(int(headers.get("content-length", 0)))).decode()
            status, answer = self._answer(line.split(" ")[1], body, plain)
            text = json.dumps(answer).encode()
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n"
                f"content-length: {len(text)}\r\nconnection: close\r\n\r\n".encode()
                + text
            )
            await writer.drain()
        finally:
            writer.close()

    def _answer(self, path, body, headers):
        self.asked.append(path)
        if self.is_away:
            return 503, {}
        if path == "/.well-known/openid-configuration":
            return 200, {
                "issuer": self.url,
                "authorization_endpoint": f"{self.url}/authorize",
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/keys",
                "token_endpoint_auth_methods_supported": self.ways,
            }
        if path == "/keys":
            return 200, {"keys": self.keys}
        if path == "/token":
            return self._exchange(parse_qs(body), headers)
        return 404, {}

    def _exchange(self, form, headers):
        asked = self._codes.pop(form["code"][0], None)
        if asked is None or not self._is_client(form, headers, asked):
            return 400, {"error": "invalid_grant"}
        verifier = hashlib.sha256(form["code_verifier"][0].encode()).digest()
        challenge = base64.urlsafe_b64encode(verifier).decode().rstrip("=")
        if (challenge, form["redirect_uri"][0]) != (asked["code_challenge"], asked["redirect_uri"]):
            return 400, {"error": "invalid_grant"}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.token(asked)}

    def _is_client(self, form, headers, asked):
        if "client_secret_basic" in self.ways:
            word = next(v for k, v in headers.items() if k.lower() == "authorization")
            given = base64.b64decode(word.removeprefix("Basic ")).decode().split(":")
            return [unquote(text) for text in given] == [asked["client_id"], SECRET]
        return (form["client_id"][0], form["client_secret"][0]) == (asked["client_id"], SECRET)
