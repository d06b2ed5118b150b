"""How a setting is declared: its default, its effect in a sentence, its bounds, its form in a file.

``config.settings`` declares with these, ``config.shape`` reads them back. Standard library only.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from llmgw.config import store_address

_T = TypeVar("_T")

ABOUT = "about"
"""The key under which a field's ``About`` lies in its dataclass metadata."""

MIB = 1024 * 1024


class Form(enum.Enum):
    """How a text in a file is to be read where its Python type does not say it."""

    SECONDS = "a duration such as 2s, 15m, 1h, 250ms or a number of seconds"
    BYTES = "a size such as 64KiB, 32MiB, 1GiB or a number of bytes"
    ADDRESS = "an address such as :8080, 127.0.0.1:8080 or [::1]:8080"
    URL = "an address such as http://10.0.0.5:8000"
    SECRET = "a reference: @/path/to/file or ${NAME} of an environment variable"  # noqa: S105 - words
    STORE = f"a store: {store_address.LEGAL}"
    NAME = "a name: 1 to 200 printable ASCII characters, no space among them"
    FIELD = "the name of a header field: letters, digits and -_.!#$%&'*+^`|~"


Seconds = Annotated[float, Form.SECONDS]
Bytes = Annotated[int, Form.BYTES]
Address = Annotated[str, Form.ADDRESS]
Url = Annotated[str, Form.URL]
SecretReference = Annotated[str, Form.SECRET]
StoreReference = Annotated[str, Form.STORE]
Name = Annotated[str, Form.NAME]
FieldName = Annotated[str, Form.FIELD]
PortRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class About:
    """What a setting means and how far its value may go; bounds are inclusive."""

    meaning: str
    at_least: float | None = None
    at_most: float | None = None


def setting(
    default: _T, meaning: str, *, at_least: float | None = None, at_most: float | None = None
) -> _T:
    """A field with its default, its effect in one sentence, and bounds of its number."""
    about = About(meaning=meaning, at_least=at_least, at_most=at_most)
    made: _T = field(default=default, metadata={ABOUT: about})
    return made


def texts_by_name(meaning: str) -> Mapping[str, str]:
    """A field for a section of free names, empty unless written."""
    made: Mapping[str, str] = field(default_factory=dict, metadata=required(meaning))
    return made


def sections_by_name(meaning: str) -> Mapping[str, Any]:
    """A field for sections of one kind under free names, empty unless written."""
    made: Mapping[str, Any] = field(default_factory=dict, metadata=required(meaning))
    return made


def required(meaning: str) -> dict[str, About]:
    """The metadata of a field that has no default."""
    return {ABOUT: About(meaning)}
