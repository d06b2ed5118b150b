"""Which program an engine is started by: what the settings name, else what this machine has."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from llmgw.config.settings import LlamaCppSettings, SimSettings


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


def _words(configured: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(configured, str):
        return (configured,) if configured else ()
    return tuple(configured)
