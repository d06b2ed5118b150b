"""References to secrets: settings hold where a secret lies, never the secret itself.

Resolved where it is used and as late as possible, so that a changed file counts at the next use.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from llmgw.errors import Invalid

MAX_BYTES = 65536
"""A file larger than this holds no secret."""

_FILE = re.compile(r"@(/.+)")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def is_reference(text: str) -> bool:
    """Whether a text has the form of a reference, ``@/path`` or ``${NAME}``."""
    return _FILE.fullmatch(text) is not None or _VARIABLE.fullmatch(text) is not None


def resolve(reference: str, *, environ: Mapping[str, str]) -> str:
    """The secret that a reference names; nothing for an empty one.

    Raises ``Invalid`` when the file or the variable is not there or is empty; the message names the
    place, never what it holds.
    """
    if not reference:
        return ""
    if match := _FILE.fullmatch(reference):
        return _of_one_line(_from_file(Path(match[1])), f"the file {match[1]}")
    if match := _VARIABLE.fullmatch(reference):
        secret = _from_variable(match[1], environ)
        return _of_one_line(secret, f"the environment variable {match[1]}")
    raise Invalid("a secret is written as @/path/to/file or ${NAME}, not as itself")


def _of_one_line(secret: str, place: str) -> str:
    """The secret, if it can be sent in a header field."""
    if secret.isprintable():
        return secret
    raise Invalid(f"{place} holds more than one line, or what is no text; write the secret alone")


def _from_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            held = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Invalid(f"the secret in {path} cannot be read: {error.strerror}") from error
    if len(held) > MAX_BYTES:
        raise Invalid(f"the file {path} is too large for a secret")
    try:
        secret = held.decode().strip()
    except UnicodeDecodeError:
        raise Invalid(f"the file {path} holds no text, so no secret") from None
    if not secret:
        raise Invalid(f"the file {path} is empty; write the secret into it")
    return secret


def _from_variable(name: str, environ: Mapping[str, str]) -> str:
    secret = environ.get(name, "").strip()
    if not secret:
        raise Invalid(f"the environment variable {name} is not set; the secret is expected there")
    return secret
