"""Plain values (of a file, the environment, options) become groups of settings.

A mistake never hides another: it is noted with its key path, the default stands in for it, and
reading goes on. Called by ``config.loading``; knows nothing of files, and of YAML only how a
variable of the environment writes a list.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin
from urllib.parse import urlsplit

import yaml

from llmgw.config import secrets, shape, store_address
from llmgw.config.declaring import About, Form
from llmgw.config.legality import NAMES, PORTS, SECTIONS, given, legal, nearest, section
from llmgw.config.shape import joined
from llmgw.errors import CatalogInvalid, Invalid, Problem
from llmgw.kit import addresses, units

_T = TypeVar("_T")

_URL = re.compile(r"[!-~]+")
_NAME = re.compile(r"[!-~]{1,200}")
_FIELD_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")

Reader = Callable[[object, str], object]
"""Reads a value of a foreign type at a key path; ``CatalogInvalid`` has all its mistakes."""


class FromEnvironment(str):
    """A text that came from the environment, where numbers and lists are written as text too."""

    __slots__ = ("variable",)

    variable: str

    @classmethod
    def of(cls, text: str, *, variable: str) -> FromEnvironment:
        """The text of a variable, with its name for messages."""
        made = cls(text)
        made.variable = variable
        return made


class Reading:
    """One reading of one tree; ``problems`` grows while it goes on.

    Inside, a value that is wrong raises ``Invalid`` and is noted by the one who knows its key path;
    ``None`` stands for a value whose mistakes have been noted.
    """

    def __init__(self, *, readers: Mapping[Any, Reader] | None = None) -> None:
        """``readers`` know the types that are not groups of settings."""
        self.problems: list[Problem] = []
        self._readers = dict(readers or {})

    def settings(self, kind: type[_T], raw: Mapping[str, object]) -> _T:
        """The whole tree as a group whose every field has a default."""
        made: _T = self._group(kind, raw, at="")
        return made

    def _noted(self, hint: Any, raw: object, *, at: str, about: About | None = None) -> Any:
        try:
            value = self._value(hint, raw, at=at)
            _check_bounds(about, value)
        except Invalid as error:
            self.problems.append(Problem(path=at, message=error.message))
            return None
        return value

    def _group(self, kind: type[Any], raw: object, *, at: str) -> Any:
        if not isinstance(raw, Mapping):
            raise _not(raw, section(kind))
        keys = shape.keys(kind)
        self._note_unknown([key.name for key in keys], raw, at=at)
        values: dict[str, object] = {}
        for key in keys:
            path, written = joined(at, key.name), raw.get(key.name)
            if written is not None:
                values[key.name] = self._noted(key.hint, written, at=path, about=key.about)
            elif key.is_required:
                self.problems.append(Problem(path=path, message=f"is required: {legal(key.hint)}"))
        kept = {name: value for name, value in values.items() if value is not None}
        is_whole = all(key.name in kept for key in keys if key.is_required)
        return kind(**kept) if is_whole else None

    def _value(self, hint: Any, raw: object, *, at: str) -> object:
        if hint in self._readers:
            return self._foreign(hint, raw, at=at)
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return _formed(args[1], raw)
        if origin in {Union, types.UnionType}:
            return self._one_of_kinds(hint, raw, at=at)
        if origin is Literal:
            return _literal(hint, raw)
        if hint is str:
            return _text(raw)
        if isinstance(raw, FromEnvironment):
            raw = _unfolded(hint, raw)
        if origin is tuple:
            return self._tuple(hint, raw, at=at)
        if shape.is_group(hint):
            return self._group(hint, raw, at=at)
        if origin is not None:
            return self._by_name(args[1], raw, at=at)
        return _plain(hint, raw)

    def _foreign(self, hint: Any, raw: object, *, at: str) -> object:
        if isinstance(raw, FromEnvironment):
            raw = _unfolded(hint, raw)
        try:
            return self._readers[hint](raw, at)
        except CatalogInvalid as error:
            self.problems.extend(error.problems)
            return None

    def _one_of_kinds(self, hint: Any, raw: object, *, at: str) -> object:
        kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
        if any(get_origin(kind) is Literal and raw in get_args(kind) for kind in kinds):
            return raw
        value = _unfolded(hint, raw) if isinstance(raw, FromEnvironment) else raw
        kind = next((kind for kind in kinds if _fits(kind, value)), None)
        if kind is None:
            raise _not(raw, legal(hint))
        return self._value(kind, value, at=at)

    def _tuple(self, hint: Any, raw: object, *, at: str) -> tuple[object, ...]:
        if not isinstance(raw, Sequence) or isinstance(raw, str):
            raise _not(raw, legal(hint))
        kind, end = get_args(hint)
        if end is not Ellipsis:
            return _ports(raw)
        read = [self._noted(kind, item, at=f"{at}[{place}]") for place, item in enumerate(raw)]
        return tuple(value for value in read if value is not None)

    def _by_name(self, kind: Any, raw: object, *, at: str) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise _not(raw, NAMES if kind is str else SECTIONS)
        read = {
            _text(name): self._noted(kind, v, at=joined(at, str(name))) for name, v in raw.items()
        }
        return {name: value for name, value in read.items() if value is not None}

    def _note_unknown(self, names: list[str], raw: Mapping[object, object], *, at: str) -> None:
        for key in raw:
            if key not in names:
                message = f"unknown key; {nearest(str(key), names)}"
                self.problems.append(Problem(path=joined(at, str(key)), message=message))


def _not(raw: object, what: str) -> Invalid:
    source = f" (from {raw.variable})" if isinstance(raw, FromEnvironment) else ""
    return Invalid(f"{given(raw)}{source} is not {what}")


def _fits(kind: Any, value: object) -> bool:
    """Whether a value has the outer shape of one of several kinds; that one then reads it."""
    if shape.is_group(kind):
        return isinstance(value, Mapping)
    origin = get_origin(kind)
    if origin is tuple:
        return isinstance(value, list)
    if origin is not None:
        return origin is Annotated and not isinstance(value, (list, Mapping))
    return isinstance(value, (int, float) if kind is float else kind)


def _check_bounds(about: About | None, value: object) -> None:
    if about is None or not isinstance(value, (int, float)):
        return
    if about.at_least is not None and value < about.at_least:
        raise Invalid(f"{value:g} is too small: give at least {about.at_least:g}")
    if about.at_most is not None and value > about.at_most:
        raise Invalid(f"{value:g} is too large: give at most {about.at_most:g}")


def _literal(hint: Any, raw: object) -> str:
    if isinstance(raw, str) and raw in get_args(hint):
        return str(raw)
    raise _not(raw, legal(hint))


def _text(raw: object) -> str:
    if isinstance(raw, str):
        return str(raw)
    is_scalar = isinstance(raw, (int, float)) or hasattr(raw, "isoformat")
    raise _not(raw, "a text; put it in quotes" if is_scalar else "a text")


def _unfolded(hint: Any, raw: FromEnvironment) -> object:
    """What the text of a variable stands for where no text is wanted, else the text."""
    try:
        value: object = yaml.safe_load(raw)
    except yaml.YAMLError:
        return raw
    if get_origin(hint) is tuple and not isinstance(value, list):
        return [part.strip() for part in raw.split(",") if part.strip()]
    return raw if value is None or isinstance(value, str) else value


def _ports(raw: Sequence[object]) -> tuple[int, int]:
    match raw:
        case [int(first), int(last)] if 1 <= first <= last <= 65535:
            return first, last
    raise _not(raw, PORTS)


def _plain(kind: type, raw: object) -> object:
    is_bool = isinstance(raw, bool)
    if kind is float and isinstance(raw, (int, float)) and not is_bool:
        if abs(raw) <= sys.float_info.max:  # which .inf and .nan are not
            return float(raw)
    elif isinstance(raw, kind) and (kind is bool or not is_bool):
        return raw
    raise _not(raw, legal(kind))


def _formed(form: Form, raw: object) -> object:
    try:
        return _FORMS[form](raw)
    except Invalid:
        if form is Form.SECRET:
            raise Invalid(f"what is written is not {form.value}") from None
        if form in {Form.STORE, Form.URL}:
            raise  # it says what is wrong and quotes no password
        raise _not(raw, form.value) from None


def _address(raw: object) -> str:
    addresses.parse(_text(raw))
    return _text(raw)


def _url(raw: object) -> str:
    text = _text(raw)
    try:
        parts = urlsplit(text)
        is_whole = bool(parts.hostname) and parts.port != 0 and _URL.fullmatch(text) is not None
    except ValueError:  # a port that is none, or an address in brackets that is none
        raise _not(raw, Form.URL.value) from None
    if "@" in parts.netloc:
        raise Invalid("what is written holds a user or a password; a key has a setting of its own")
    if parts.query or parts.fragment:
        raise _not(raw, f"{Form.URL.value}, without ? and #")
    if is_whole and text.startswith(("http://", "https://")):
        return text.rstrip("/")
    raise _not(raw, Form.URL.value)


def _name(raw: object) -> str:
    if _NAME.fullmatch(text := _text(raw)):
        return text
    raise _not(raw, "a name")


def _field_name(raw: object) -> str:
    if _FIELD_NAME.fullmatch(text := _text(raw)):
        return text
    raise _not(raw, "the name of a field")


def _secret(raw: object) -> str:
    text = _text(raw)
    if secrets.is_reference(text):
        return text
    raise _not(raw, "a reference")


def _store(raw: object) -> str:
    if not isinstance(raw, str):
        raise Invalid(f"what is written is not {Form.STORE.value}")
    if raw:  # an empty text is how a variable says: none
        store_address.check(raw)
    return str(raw)


_FORMS: Mapping[Form, Callable[[object], object]] = {
    Form.SECONDS: units.seconds,
    Form.BYTES: units.size_bytes,
    Form.ADDRESS: _address,
    Form.URL: _url,
    Form.SECRET: _secret,
    Form.STORE: _store,
    Form.NAME: _name,
    Form.FIELD: _field_name,
}
