"""Which program an engine is started by: what the settings name, else what this machine has."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmgw.config.tending import LlamaCppSettings, SglangSettings, SimSettings, VllmSettings


def own_program() -> tuple[str, ...]:
    """The words that start this very ``llmgw``, whether or not it lies on PATH."""
    return (sys.executable, "-m", "llmgw")


def sim_program(settings: SimSettings) -> tuple[str, ...]:
    """The words that start ``llmgw``; the sim engine is one of its commands."""
    return _words(settings.bin) or own_program()


def llamacpp_program(
    settings: LlamaCppSettings, *, environ: Mapping[str, str], installed: Path | None
) -> tuple[str, ...]:
    """The words that start ``llama-server``.

    What is configured, else what was ``installed``, else from PATH, else our own launcher. Without
    any of these it is the plain name, so that the launch fails saying what is missing.
    """
    if words := _words(settings.bin):
        return words
    if installed is not None:
        return (str(installed),)
    if found := shutil.which("llama-server", path=environ.get("PATH")):
        return (found,)
    if importlib.util.find_spec("xllamacpp") is not None:
        return (*own_program(), "llama-server")
    return ("llama-server",)


def vllm_program(
    settings: VllmSettings, *, environ: Mapping[str, str], installed: Path | None
) -> tuple[str, ...]:
    """The words that start ``vllm``: what is configured, else what was installed, else PATH."""
    return _words(settings.bin) or (str(installed) if installed else _found("vllm", environ),)


def ray_program(
    settings: VllmSettings, *, vllm: str, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """The words that start ``ray``: what is configured, else what lies beside ``vllm``, else PATH.

    A Ray of another environment than vLLM's has no vLLM in it, and its workers could not start.
    """
    if words := _words(settings.ray_bin):
        return words
    beside = Path(vllm).with_name("ray")
    return (str(beside) if beside.is_file() else _found("ray", environ),)


def sglang_program(
    settings: SglangSettings, *, environ: Mapping[str, str], installed: Path | None
) -> tuple[str, ...]:
    """The words that start the Python that has SGLang; an installed one is a Python already."""
    return _words(settings.python) or (str(installed) if installed else _found("python3", environ),)


def _found(name: str, environ: Mapping[str, str]) -> str:
    """Its path, or the plain name so that the launch fails saying what is missing."""
    return shutil.which(name, path=environ.get("PATH")) or name


def _words(configured: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(configured, str):
        return (configured,) if configured else ()
    return tuple(configured)
