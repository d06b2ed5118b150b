"""Runs ``llmgw`` as a process of its own, as a person or a program does."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from unittest import mock

import llmgw
from llmgw.cli import failures
from llmgw.cli.root import root

_RUNTIME = str(Path(llmgw.__file__).parents[1])
_WITHIN_S = 60.0


def here(*args: str, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The same within this process, which costs a twentieth: for what needs no process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environ or {}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _log_as_it_was(),
    ):
        code = failures.run(root, args=args)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _log_as_it_was() -> Iterator[None]:
    """A command may send the log elsewhere, which must not outlast it."""
    log = logging.getLogger("llmgw")
    handlers, level, propagates = list(log.handlers), log.level, log.propagate
    try:
        yield
    finally:
        log.handlers[:], log.level, log.propagate = handlers, level, propagates


def run(
    *args: str, environ: Mapping[str, str] | None = None, python: tuple[str, ...] = ("-m", "llmgw")
) -> subprocess.CompletedProcess[str]:
    """The finished command with what it wrote; its input is empty."""
    return subprocess.run(
        [sys.executable, *python, *args],
        env=environment(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_WITHIN_S,
    )


def start(*args: str, environ: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """The running command, which Ctrl-C reaches wherever the tests run; the caller ends it."""
    return subprocess.Popen(
        ["env", "--default-signal=INT", sys.executable, "-m", "llmgw", *args],
        env=environment(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of this process without our settings, and with ``changes``."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("LLMGW_")}
    return {**kept, "PYTHONPATH": _RUNTIME, **(changes or {})}
