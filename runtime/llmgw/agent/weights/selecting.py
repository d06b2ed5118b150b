"""Chooses which files of a repository make the model that a source asks for; pure.

``hub`` hands in all paths of a repository and fetches what this returns.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Sequence

from llmgw.agent.weights.remote_files import is_gguf, is_projector
from llmgw.domain import weights
from llmgw.errors import Invalid, Unknown

_MOST_NAMED = 8
_BESIDE = (".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".yaml", ".yml")
"""What belongs to a checkpoint beside its weights: configuration, tokenizer, template, code."""

_COPIES = ("original", "onnx", "openvino", "coreml", "gguf", ".git", ".cache")
"""Folders in which repositories keep the same model once more, for other programs."""

_CONSOLIDATED = re.compile(r"consolidated.*\.safetensors")
_ADAPTER = "adapter_model"


def select(paths: Sequence[str], *, pattern: str, source: str) -> tuple[str, ...]:
    """The paths to fetch, in order; ``Unknown`` or ``Invalid`` when there is no clear answer."""
    if not pattern:
        return _whole(paths, source=source)
    if weights.is_glob(pattern):
        chosen = [path for path in paths if _matches(path, pattern)]
    else:
        chosen = [path for path in paths if path == pattern]
    if not chosen:
        raise Unknown(f"{source}: the repository has no such file; {_offer(paths)}")
    return _with_all_parts(chosen, paths=paths, source=source)


def _matches(path: str, pattern: str) -> bool:
    subject = path if "/" in pattern else posixpath.basename(path)
    return fnmatch.fnmatchcase(subject, pattern)


def _with_all_parts(chosen: Sequence[str], *, paths: Sequence[str], source: str) -> tuple[str, ...]:
    """A part of a split model stands for all of them, and a model that lacks one is no model."""
    whole = set(chosen)
    for path in chosen:
        folder, name = posixpath.split(path)
        whole |= {posixpath.join(folder, part) for part in weights.split_names(name)}
    missing = sorted(whole.difference(paths))
    if missing:
        raise Invalid(f"{source}: the repository lacks {missing[0]}, a part of the split model")
    return tuple(sorted(whole))


def _whole(paths: Sequence[str], *, source: str) -> tuple[str, ...]:
    """What an engine loads from a repository that was named as a whole."""
    ours = [path for path in paths if not _is_copy(path)]
    checkpoint = _checkpoint(ours, suffix=".safetensors") or _checkpoint(ours, suffix=".bin")
    if checkpoint:
        beside = [path for path in ours if path.endswith(_BESIDE)]
        return tuple(sorted({*checkpoint, *beside}))
    builds = _builds(paths)
    if not builds:
        raise Unknown(f"{source}: the repository holds no weights that an engine loads")
    if len(builds) > 1:
        raise Invalid(
            f"{source} holds {len(builds)} models of llama.cpp; {_offer(paths)}; "
            "write hf:ORG/REPO/FILE, the first part of a split one"
        )
    return _with_all_parts(builds, paths=paths, source=source)


def _is_copy(path: str) -> bool:
    return path.split("/", maxsplit=1)[0] in _COPIES and "/" in path


def _checkpoint(paths: Sequence[str], *, suffix: str) -> list[str]:
    """Weights at the top of a repository; folders hold variants, or parts of other programs."""
    top = [path for path in paths if path.endswith(suffix) and "/" not in path]
    if suffix == ".bin":
        top = [path for path in top if path.startswith("pytorch_model")]
    top = [path for path in top if not path.startswith(_ADAPTER)] or top
    # The same weights in their maker's own layout, beside those that all engines read.
    return [path for path in top if not _CONSOLIDATED.fullmatch(path)] or top


def _builds(paths: Sequence[str]) -> list[str]:
    """The first file of each GGUF model."""
    models = (path for path in paths if is_gguf(path) and not is_projector(path))
    firsts = set()
    for path in models:
        folder, name = posixpath.split(path)
        firsts.add(posixpath.join(folder, (weights.split_names(name) or (name,))[0]))
    return sorted(firsts)


def _offer(paths: Sequence[str]) -> str:
    names = _builds(paths) or sorted(path for path in paths if path.endswith(".safetensors"))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"it has {', '.join(names[:_MOST_NAMED]) or 'no weights'}{more}"
