"""Hashes of passwords (argon2id): made and compared in threads, few at a time.

``signing_in`` asks it. Each piece of work holds 64 MiB and about a tenth of a second of a core,
and anybody can ask for it; so few run at once, and only some wait.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from argon2 import low_level

from llmgw.domain import people
from llmgw.errors import HashUnreadable, Unavailable
from llmgw.kit import offloading

_T = TypeVar("_T")

_AT_ONCE = 2
_WAITING = 64
_SALT_BYTES = 16
_HASH_BYTES = 32
_STORED = re.compile(
    r"\$argon2id\$v=19\$m=([1-9]\d{0,6}),t=([1-9]\d{0,1}),p=([1-9]\d{0,1})"
    r"\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{22,171})"
)
_MOST_MEMORY_KIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """What one hash takes; RFC 9106's second choice with four lanes."""

    time: int = 3
    memory_kib: int = 64 * 1024
    parallelism: int = 4


class Aside(Protocol):
    """Does work beside the event loop, and has done it when it ends."""

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """What came of it."""
        ...


class Passwords:
    """Hashes passwords and compares them with stored hashes."""

    def __init__(self, cost: Cost | None = None, *, aside: Aside = offloading.to_the_end) -> None:
        """``cost`` is that of new hashes; stored ones tell theirs."""
        self._aside = aside
        self._cost = cost or Cost()
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._present = 0
        self._nobodys = _written(self._cost, salt=bytes(_SALT_BYTES), digest=bytes(_HASH_BYTES))

    async def hashed(self, password: str) -> str:
        """What is stored of a new password; ``WeakPassword``, or ``Unavailable`` in a crowd."""
        people.check_password(password)
        salt = secrets.token_bytes(_SALT_BYTES)
        digest = await self._run(
            lambda: _digest(password, self._cost, salt=salt, length=_HASH_BYTES)
        )
        return _written(self._cost, salt=salt, digest=digest)

    async def is_right(self, password: str, stored: str) -> bool:
        """Whether a stored hash is that of the password.

        ``HashUnreadable`` for what is no such hash, ``Unavailable`` in a crowd.
        """
        cost, salt, digest = _read(stored)
        if len(password) > people.LONGEST_PASSWORD:
            password = ""  # it can be nobody's, and takes as long to be refused
        found = await self._run(lambda: _digest(password, cost, salt=salt, length=len(digest)))
        return hmac.compare_digest(found, digest)

    async def take_as_long(self, password: str) -> None:
        """Spend what comparing takes, where there is nobody to compare with."""
        await self.is_right(password, self._nobodys)

    async def _run(self, work: Callable[[], _T]) -> _T:
        async with self._turn():
            return await self._aside(work)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self._present >= _WAITING:
            raise Unavailable("too many people sign in at this moment; try again in a moment")
        self._present += 1
        try:
            async with self._turns:
                yield
        finally:
            self._present -= 1


def _digest(password: str, cost: Cost, *, salt: bytes, length: int) -> bytes:
    return low_level.hash_secret_raw(
        secret=password.encode("utf-8", "surrogatepass"),
        salt=salt,
        time_cost=cost.time,
        memory_cost=cost.memory_kib,
        parallelism=cost.parallelism,
        hash_len=length,
        type=low_level.Type.ID,
        version=19,
    )


def _written(cost: Cost, *, salt: bytes, digest: bytes) -> str:
    parameters = f"m={cost.memory_kib},t={cost.time},p={cost.parallelism}"
    return f"$argon2id$v=19${parameters}${_base64(salt)}${_base64(digest)}"


def _read(stored: str) -> tuple[Cost, bytes, bytes]:
    """Cost, salt and digest; nothing is believed that argon2 would not take, or only for hours."""
    found = _STORED.fullmatch(stored)
    if found is None:
        raise HashUnreadable("a stored password is no argon2id hash; it has to be reset")
    memory_kib, time, parallelism = (int(text) for text in found.groups()[:3])
    if not 8 * parallelism <= memory_kib <= _MOST_MEMORY_KIB:
        raise HashUnreadable("a stored password asks for no sensible memory; it has to be reset")
    try:
        salt, digest = (_bytes(text) for text in found.groups()[3:])
    except binascii.Error as error:
        raise HashUnreadable("a stored password is cut off; it has to be reset") from error
    return Cost(time=time, memory_kib=memory_kib, parallelism=parallelism), salt, digest


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
