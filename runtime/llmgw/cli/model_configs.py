"""Finds a model's own ``config.json``: in a folder, in a file, or on the hub."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from llmgw.errors import Denied, Invalid, Unavailable, Unknown

_NAME = "config.json"
_WITHIN_S = 20.0
_MOST_BYTES = 4 * 1024 * 1024
_REFUSED = frozenset({401, 403})
_ABSENT = 404
_INSTEAD = "give the model's own config.json with --config FILE"


def is_source(text: str) -> bool:
    """Whether this is where a model lies, and not a name of the catalog."""
    return "/" in text or Path(text).exists()


def of_file(path: Path) -> Mapping[str, Any]:
    """The configuration in a file, or in a folder with a model."""
    file = path / _NAME if path.is_dir() else path
    try:
        return _read(file.read_bytes(), where=str(file))
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}; {_INSTEAD}") from error


def of_source(source: str, *, hub: str) -> Mapping[str, Any]:
    """That of a model by where it lies: a folder here, or a repository of the hub."""
    if Path(source).exists() and not source.endswith(".gguf"):
        return of_file(Path(source))
    if source.endswith(".gguf"):
        raise Invalid(
            f"{source} is a GGUF file and has no {_NAME}: {_INSTEAD}, that of the model which it "
            "was made from, and --engine llamacpp"
        )
    repository = source.removeprefix("hf:")
    if repository.startswith("/") or "://" in repository or repository.count("/") != 1:
        raise Invalid(f"{source} is no folder here and no repository of the hub: {_INSTEAD}")
    return _of_hub(repository, hub=hub)


def _of_hub(repository: str, *, hub: str) -> Mapping[str, Any]:
    url = f"{hub.rstrip('/')}/{repository}/resolve/main/{_NAME}"
    try:
        answer = httpx.get(url, timeout=_WITHIN_S, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(f"{url} cannot be read ({error}); {_INSTEAD}") from error
    if answer.status_code in _REFUSED:
        raise Denied(f"the hub gives {repository} to those alone who have access; {_INSTEAD}")
    if answer.status_code == _ABSENT:
        raise Unknown(f"the hub has no {_NAME} of {repository}; see its name there, or {_INSTEAD}")
    if not answer.is_success:
        raise Unavailable(f"{url} answers {answer.status_code}; try later, or {_INSTEAD}")
    return _read(answer.content, where=url)


def _read(content: bytes, *, where: str) -> Mapping[str, Any]:
    try:
        found = json.loads(content[:_MOST_BYTES])
    except ValueError as error:
        raise Invalid(f"{where} is no JSON: {error}; {_INSTEAD}") from error
    if not isinstance(found, dict):
        raise Invalid(f"{where} is no configuration of a model; {_INSTEAD}")
    return found
