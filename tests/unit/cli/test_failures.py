"""Every error of ours ends a command with the decided exit code, and without a traceback."""

from __future__ import annotations

import click
import pytest

from llmgw import errors
from llmgw.cli import failures
from llmgw.cli.failures import ExitCode

CODES = {
    errors.LlmgwError: ExitCode.FAILED,
    errors.Invalid: ExitCode.USAGE,
    errors.SettingsInvalid: ExitCode.USAGE,
    errors.CatalogInvalid: ExitCode.USAGE,
    errors.ExtraMissing: ExitCode.USAGE,
    errors.Unauthenticated: ExitCode.REFUSED,
    errors.Denied: ExitCode.REFUSED,
    errors.IdentityMismatch: ExitCode.REFUSED,
    errors.Unknown: ExitCode.UNKNOWN,
    errors.NoControlPlane: ExitCode.UNREACHABLE,
    errors.Conflict: ExitCode.REFUSED,
    errors.AlreadyHeld: ExitCode.REFUSED,
    errors.NoStore: ExitCode.REFUSED,
    errors.Exhausted: ExitCode.REFUSED,
    errors.Unavailable: ExitCode.FAILED,
    errors.Standby: ExitCode.REFUSED,
    errors.NotConnected: ExitCode.FAILED,
    errors.Unreachable: ExitCode.UNREACHABLE,
    errors.DeadlinePassed: ExitCode.TIMEOUT,
    errors.Internal: ExitCode.FAILED,
    errors.EngineFailed: ExitCode.FAILED,
}


def made(kind: type[errors.LlmgwError]) -> errors.LlmgwError:
    if issubclass(kind, (errors.SettingsInvalid, errors.CatalogInvalid)):
        return kind("what failed", [errors.Problem("a.b", "is wrong")])
    return kind("what failed")


@pytest.mark.parametrize(("kind", "code"), CODES.items(), ids=lambda p: getattr(p, "__name__", ""))
def test_error_ends_the_command_with_its_code_and_its_sentence(kind, code, capsys):
    @click.command()
    def command() -> None:
        raise made(kind)

    assert failures.run(command, args=[]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines()[0] == "llmgw: what failed"


def test_every_mistake_is_listed_under_the_sentence(capsys):
    @click.command()
    def command() -> None:
        raise errors.SettingsInvalid(
            "server.yaml has 2 mistakes",
            [errors.Problem("listen", "no port"), errors.Problem("", "empty")],
        )

    assert failures.run(command, args=[]) == ExitCode.USAGE
    assert capsys.readouterr().err.splitlines() == [
        "llmgw: server.yaml has 2 mistakes",
        "  listen: no port",
        "  empty",
    ]


def test_wrong_usage_is_2(capsys):
    @click.command()
    @click.option("--count", type=int)
    def command(count: int | None) -> None:
        del count

    assert failures.run(command, args=["--count", "x"]) == ExitCode.USAGE
    assert "'x' is not a valid integer" in capsys.readouterr().err


def test_interruption_is_130(capsys):
    @click.command()
    def command() -> None:
        raise KeyboardInterrupt

    assert failures.run(command, args=[]) == ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_command_ends_with_the_code_that_it_chose():
    @click.command()
    @click.pass_context
    def command(ctx: click.Context) -> None:
        ctx.exit(ExitCode.CHECK_SAID_NO)

    assert failures.run(command, args=[]) == ExitCode.CHECK_SAID_NO


def test_command_that_returns_is_0():
    @click.command()
    def command() -> str:
        return "ignored"

    assert failures.run(command, args=[]) == ExitCode.OK


def test_fault_of_the_program_keeps_its_stack():
    @click.command()
    def command() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failures.run(command, args=[])
