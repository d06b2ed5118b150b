"""Where a store is: a path is a SQLite file, ``postgresql://…`` a PostgreSQL database.

Used by ``config.reading`` to check what was written, and by the store, which resolves a reference
at the moment it connects. An address may hold a password, so no message quotes one as it was given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from llmgw.config import secrets
from llmgw.errors import Invalid

LEGAL = (
    "an absolute path, postgresql://USER@HOST/DATABASE, @/path/to/file that holds one, or ${NAME}"
)
"""What may be written for a store."""

_SCHEMES = frozenset({"postgresql", "postgres"})


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """One store."""

    shown: str
    """The address as it may be told: without password and options."""
    path: Path | None = None
    """The file, where it is SQLite."""
    url: str = field(default="", repr=False)
    """What PostgreSQL's own library is given, where it is PostgreSQL."""


def check(text: str) -> None:
    """``Invalid`` where a text can be no store; what a reference holds is seen when it is used."""
    if not secrets.is_reference(text):
        parse(text)


def resolve(text: str, *, environ: Mapping[str, str]) -> StoreAddress:
    """The store that a setting names, by reference or by itself; ``Invalid`` otherwise."""
    return parse(secrets.resolve(text, environ=environ) if secrets.is_reference(text) else text)


def parse(text: str) -> StoreAddress:
    """Read an address; ``Invalid`` says what is wrong with it and repeats none of it."""
    if text.startswith("/"):
        return StoreAddress(shown=text, path=Path(text))
    scheme, separator, _ = text.partition("://")
    if not separator:
        raise Invalid(f"the store's address is not {LEGAL}")
    if scheme not in _SCHEMES:
        raise Invalid(f"the store's address begins with none of postgresql:// and /: give {LEGAL}")
    return StoreAddress(shown=_shown(_split(text)), url=text)


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise Invalid("the store's address has brackets that do not belong there") from None
    if len(parts.path) < 2:
        raise Invalid("the store's address names no database: end it with /NAME")
    return parts


def _shown(parts: SplitResult) -> str:
    identity, _, hosts = parts.netloc.rpartition("@")
    user = identity.partition(":")[0]
    return f"postgresql://{user}{'@' if user else ''}{hosts}{parts.path}"
