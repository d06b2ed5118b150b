"""Turns the end of a command into an exit code; the one place where a ``Kind`` becomes one.

No command catches our own errors: each raises, and here the sentence goes to standard error, with
no stack; so does what the machine refuses, a full disk or a folder of somebody else. Any other
exception is a bug and keeps its traceback.
"""

from __future__ import annotations

import contextlib
import enum
import sys
from collections.abc import Mapping, Sequence

import click

from llmgw.cli import plain
from llmgw.errors import (
    CatalogInvalid,
    DeadlinePassed,
    Kind,
    LlmgwError,
    NoControlPlane,
    SettingsInvalid,
    Standby,
    Unreachable,
)


class ExitCode(enum.IntEnum):
    """What the end of a command means to a program."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    UNKNOWN = 4
    REFUSED = 5
    TIMEOUT = 6
    CHECK_SAID_NO = 7
    INTERRUPTED = 130


_BY_CLASS: tuple[tuple[type[LlmgwError], ExitCode], ...] = (
    (NoControlPlane, ExitCode.UNREACHABLE),
    (Unreachable, ExitCode.UNREACHABLE),
    (DeadlinePassed, ExitCode.TIMEOUT),
    (Standby, ExitCode.REFUSED),
)

_BY_KIND: Mapping[Kind, ExitCode] = {
    Kind.INVALID: ExitCode.USAGE,
    Kind.UNAUTHENTICATED: ExitCode.REFUSED,
    Kind.DENIED: ExitCode.REFUSED,
    Kind.UNKNOWN: ExitCode.UNKNOWN,
    Kind.CONFLICT: ExitCode.REFUSED,
    Kind.EXHAUSTED: ExitCode.REFUSED,
    Kind.UNAVAILABLE: ExitCode.FAILED,
    Kind.INTERNAL: ExitCode.FAILED,
}


def run(command: click.Command, *, args: Sequence[str] | None = None, prog: str = "llmgw") -> int:
    """Run a command to its end; the exit code, with the reason on standard error when it is not 0.

    A command ends with a code of its own by ``ctx.exit(ExitCode.CHECK_SAID_NO)``.
    """
    try:
        result = command.main(
            args=None if args is None else list(args), prog_name=prog, standalone_mode=False
        )
        sys.stdout.flush()
    except LlmgwError as error:
        _say(error)
        return exit_code(error)
    except OSError as error:
        _refused_by_the_machine(error)
        return ExitCode.FAILED
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except click.Abort:
        click.echo("llmgw: interrupted", err=True)
        return ExitCode.INTERRUPTED
    return result if isinstance(result, int) else ExitCode.OK


def exit_code(error: LlmgwError) -> ExitCode:
    """The exit code of one of our errors: by its class where that says more than its kind."""
    for kind_of_error, code in _BY_CLASS:
        if isinstance(error, kind_of_error):
            return code
    return _BY_KIND[error.kind]


def _refused_by_the_machine(error: OSError) -> None:
    if not isinstance(error, BrokenPipeError):  # who read us has read enough
        where = "" if error.filename is None else f"{error.filename}: "
        click.echo(f"llmgw: {plain.one_line(f'{where}{error.strerror or error}')}", err=True)
    with contextlib.suppress(OSError):
        sys.stdout.close()  # what could not be written is not tried again at the end


def _say(error: LlmgwError) -> None:
    first, *others = map(plain.one_line, error.message.splitlines() or [""])
    click.echo(f"llmgw: {first}", err=True)
    for line in others:
        click.echo(line, err=True)
    if isinstance(error, (SettingsInvalid, CatalogInvalid)):
        for problem in error.problems:
            click.echo(f"  {plain.one_line(str(problem))}", err=True)
