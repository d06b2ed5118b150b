"""Which models ``llmgw up`` serves: the one that was named, or the GGUF files in its folder.

Each becomes a model definition as a person would write it in ``server.yaml``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from llmgw.domain import weights
from llmgw.errors import Invalid

CONTEXT_TOKENS = 4096
"""What one request may have by default: enough for a talk, small enough for a laptop's memory."""

_MOST_NAMED = 5
_QUANT = re.compile(r"[._-](i?q\d\w*|bf16|f16|f32)$", re.IGNORECASE)
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_NOT_NAME = re.compile(r"[^a-z0-9._:-]+")

Definition = Mapping[str, Any]


def named(source: str, *, name: str | None, threads: int) -> Definition:
    """The definition of a model that was given as a path, a URL or ``hf:org/repo/file.gguf``.

    ``Invalid`` when it is a path and nothing is there, or a folder of several models.
    """
    if not weights.is_remote(source):
        path = Path(source).expanduser().absolute()
        if not path.exists():
            raise Invalid(f"--model {source}: there is no such file, and it is no URL either")
        _check_is_one(path)
        source = str(path)
    return _definition(source, name=name or name_of(source), threads=threads)


def found(folder: Path, *, threads: int) -> Sequence[Definition]:
    """A definition for each model file in a folder, in the order of their names."""
    files = _model_files(folder)
    return [_definition(str(p.absolute()), name=name_of(str(p)), threads=threads) for p in files]


def name_of(source: str) -> str:
    """A model's name from its file: lower case, without suffix and quantisation."""
    path = urlsplit(source).path if "://" in source else source
    stem = path.rstrip("/").rpartition("/")[2].removesuffix(".gguf")
    bare = _QUANT.sub("", _PART.sub("", stem))
    return _NOT_NAME.sub("-", bare.lower()).strip("-._:") or "model"


def _check_is_one(path: Path) -> None:
    """A folder may hold the parts of one model; of several models nobody said which."""
    files = _model_files(path) if path.is_dir() else ()
    if len(files) > 1:
        names = ", ".join(file.name for file in files[:_MOST_NAMED])
        more = f" and {len(files) - _MOST_NAMED} more" if len(files) > _MOST_NAMED else ""
        raise Invalid(f"--model {path} holds several models: name one of {names}{more}")


def _model_files(folder: Path) -> Sequence[Path]:
    return sorted(p for p in folder.glob("*.gguf") if not _is_later_part(p))


def _definition(source: str, *, name: str, threads: int) -> Definition:
    profile = {"name": "cpu", "engine": "llamacpp", "args": ["--threads", str(threads)]}
    return {
        "name": name,
        "source": source,
        "context_length": CONTEXT_TOKENS,
        "scaling": {"min": 1},
        "profiles": [profile],
    }


def _is_later_part(path: Path) -> bool:
    """A split model is opened by its first file."""
    part = _PART.search(path.stem)
    return part is not None and not part[0].startswith("-00001-")
