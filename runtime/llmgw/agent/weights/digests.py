"""What a source publishes of a file's content, and the hashing that compares it.

``hub`` and ``mirrors`` name digests, ``partials`` feeds the bytes as they are written.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

_SHA256 = re.compile(r"[0-9a-f]{64}")
_SHA1 = re.compile(r"[0-9a-f]{40}")
_REPR_DIGEST = re.compile(r"(?:^|,)\s*sha-256=:([A-Za-z0-9+/=]+):")
_SHOWN_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest in lower-case hexadecimal.

    ``git`` is the id of a git blob: SHA-1 over a head with the length, then the content. The hub
    publishes it for small files, and SHA-256 for all that lies in its large file storage.
    """

    algorithm: str
    value: str

    def __str__(self) -> str:
        """As it is kept beside a file."""
        return f"{self.algorithm}:{self.value}"

    @property
    def shown(self) -> str:
        """The first digits, as people compare them."""
        return self.value[:_SHOWN_DIGITS]


def sha256(value: object) -> Digest | None:
    """A SHA-256 in hexadecimal, with quotes or a ``sha256:`` before it; nothing for other texts."""
    text = (
        value.strip().strip('"').lower().removeprefix("sha256:") if isinstance(value, str) else ""
    )
    return Digest("sha256", text) if _SHA256.fullmatch(text) else None


def git_blob(value: object) -> Digest | None:
    """The id of a git blob; nothing for other texts."""
    is_one = isinstance(value, str) and _SHA1.fullmatch(value) is not None
    return Digest("git", str(value)) if is_one else None


def noted(text: str) -> Digest | None:
    """A digest as it was kept beside a file."""
    algorithm, _, value = text.partition(":")
    return {"sha256": sha256, "git": git_blob}.get(algorithm, _nothing)(value)


def published(headers: Mapping[str, str]) -> Digest | None:
    """The digest of the whole file that an answer with bytes tells, if it tells one.

    ``Repr-Digest`` is the standard's word (RFC 9530). An ``ETag`` of 64 digits may be anything, so
    it is not believed.
    """
    match = _REPR_DIGEST.search(headers.get("repr-digest", ""))
    if match is not None:
        try:
            return sha256(base64.b64decode(match[1], validate=True).hex())
        except binascii.Error:
            return None
    return linked(headers)


def linked(headers: Mapping[str, str]) -> Digest | None:
    """The digest of what an answer leads to: the hub's word for its large file storage."""
    return sha256(headers.get("x-linked-etag", ""))


def _nothing(value: object) -> Digest | None:  # noqa: ARG001 - fits the two above
    return None


class Hashing:
    """A digest that is worked out while a file is written, from its first byte on."""

    def __init__(self, wanted: Digest, *, size_bytes: int | None) -> None:
        """The length is part of a git blob's id, so that one needs it."""
        self.wanted = wanted
        if wanted.algorithm == "git":
            # A name of content that git gives, and no protection: the hub publishes nothing else.
            self._hash = hashlib.sha1(b"blob %d\0" % (size_bytes or 0), usedforsecurity=False)
        else:
            self._hash = hashlib.sha256()

    def update(self, block: bytes | memoryview) -> None:
        """Take the next bytes."""
        self._hash.update(block)

    def result(self) -> Digest:
        """The digest of all bytes so far."""
        return Digest(self.wanted.algorithm, self._hash.hexdigest())
