"""Renders ``docs/reference/settings.md`` from the settings; a test holds the page to it."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from llmgw.config import shape
from llmgw.config.declaring import Form
from llmgw.config.gateway_host import GatewayHostSettings
from llmgw.config.settings import AgentSettings, ServerSettings
from llmgw.config.shape import Key, joined
from llmgw.domain.catalog import Model
from llmgw.kit import units

_HEAD = """\
# Settings

This page is made from `runtime/llmgw/config/settings.py` and its parts by `llmgw config reference`.

A setting is given in the file, by a variable of the environment, or by an option of the command; the later wins.
The variable of `router.dispatch.max_attempts` is `LLMGW_ROUTER__DISPATCH__MAX_ATTEMPTS`: the key path in capitals, a dot written as two underscores.
Lists and sections are written in a variable as YAML, such as `LLMGW_CONTROL__EXPECT_NODES='[node01, node02]'`; a list of plain words may be divided by commas.
A duration is written as `250ms`, `2s`, `15m`, `1h`, or as a number of seconds; a size as `64KiB`, `32MiB`, `1GiB`, or as a number of bytes.
A secret is never written itself: give `@/path/to/file`, or `${NAME}` for a variable of the environment.
An unknown key is a mistake, and `llmgw config check FILE` lists all mistakes of a file at once.
"""

_ROLES: Mapping[str, type[Any]] = {
    "server.yaml": ServerSettings,
    "agent.yaml": AgentSettings,
    "gateway.yaml": GatewayHostSettings,
}


def render() -> str:
    """The whole page in Markdown."""
    return "\n".join([_HEAD, *(line for name in _ROLES for line in _role(name))])


def _role(name: str) -> Iterator[str]:
    yield f"## `{name}`\n"
    yield from _group(_ROLES[name], at="")


def _group(kind: type[Any], *, at: str) -> Iterator[str]:
    keys = shape.keys(kind)
    yield "| key | default | legal | effect |"
    yield "|---|---|---|---|"
    for key in keys:
        yield _row(key, at=at)
    yield ""
    for key in keys:
        below = key.group or key.item_group
        if below is not None:
            path = joined(at, key.name) + _item(key)
            yield f"### `{path}`\n"
            yield f"{key.about.meaning}\n"
            yield from _group(below, at=path)


def _item(key: Key) -> str:
    if key.item_group is None:
        return ""
    return ".NAME" if key.is_by_name else "[]"


def _row(key: Key, *, at: str) -> str:
    cells = (f"`{joined(at, key.name)}`", _default(key), _legal(key), key.about.meaning)
    return f"| {' | '.join(cells)} |"


def _default(key: Key) -> str:
    if key.is_required:
        return "required"
    if shape.is_group(type(key.default)):
        return "see below"
    if key.default in (None, "", (), {}):
        return "unset"
    return f"`{_written(key)}`"


def _written(key: Key) -> str:
    form = _form(key.hint)
    if form is Form.SECONDS:
        return units.shown_seconds(key.default)
    if form is Form.BYTES:
        return units.shown_bytes(key.default)
    if isinstance(key.default, bool):
        return str(key.default).lower()
    if isinstance(key.default, tuple):
        return f"[{', '.join(map(_written_item, key.default))}]"
    return str(key.default)


def _written_item(item: object) -> str:
    """One entry of a list, a section as it stands in a file."""
    if not shape.is_group(type(item)):
        return repr(item)
    pairs = [f"{key.name}: {getattr(item, key.name)}" for key in shape.keys(type(item))]
    return f"{{{', '.join(pairs)}}}"


def _legal(key: Key) -> str:
    about = key.about
    least = "" if about.at_least is None else f", at least {about.at_least:g}"
    most = "" if about.at_most is None else f", at most {about.at_most:g}"
    return f"{_kind(key.hint)}{least}{most}"


def _kind(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if (form := _form(hint)) is not None:
        return _FORMS[form]
    if origin in {Union, types.UnionType}:
        return " or ".join(_kind(kind) for kind in args if kind is not types.NoneType)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in args if word)
    if origin is tuple:
        return f"list: {_kind(args[0])}" if args[-1] is Ellipsis else "first and last port"
    if origin is not None:
        return "texts by name" if args[1] is str else "sections by name"
    return "section" if shape.is_group(hint) else _PLAIN[hint]


def _form(hint: Any) -> Form | None:
    return get_args(hint)[1] if get_origin(hint) is Annotated else None


_FORMS: Mapping[Form, str] = {
    Form.SECONDS: "duration",
    Form.BYTES: "size",
    Form.ADDRESS: "address",
    Form.URL: "URL",
    Form.SECRET: "secret reference",
    Form.STORE: "store address",
    Form.NAME: "name",
    Form.FIELD: "header name",
}

_PLAIN: Mapping[type, str] = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    Model: "[model](models.md)",
}
