"""Commands are imported when they run, and a missing package is told apart from a fault of ours."""

from __future__ import annotations

import gc

import click
import pytest
from click.testing import CliRunner

from llmgw.cli.lazy import LazyCommand, LazyGroup
from llmgw.errors import ExtraMissing


def group(**commands: LazyCommand) -> LazyGroup:
    return LazyGroup("tool", table=commands)


def entry(module: str, *, extras: str = "", is_hidden: bool = False) -> LazyCommand:
    return LazyCommand(
        module=module, attribute="status", help="About it.", extras=extras, is_hidden=is_hidden
    )


def load(command: LazyCommand) -> click.Command | None:
    return group(it=command).get_command(click.Context(click.Command("tool")), "it")


def test_help_imports_no_command():
    shown = CliRunner().invoke(group(broken=entry("no.such.module")), ["--help"])
    assert shown.exit_code == 0
    assert "broken  About it." in shown.output


def test_hidden_command_runs_and_is_not_listed():
    tool = group(status=entry("llmgw.cli.status_cmd", is_hidden=True))
    assert "About it." not in CliRunner().invoke(tool, ["--help"]).output
    assert CliRunner().invoke(tool, ["status", "--help"]).exit_code == 0


def test_command_is_found_by_its_module_and_attribute():
    found = load(entry("llmgw.cli.status_cmd"))
    assert found is not None
    assert found.name == "status"


def test_missing_package_of_an_extra_says_what_to_install():
    with pytest.raises(ExtraMissing, match=r"'llmgw\[server,agent\]'.*'\.\[server,agent\]'"):
        load(entry("absent_package.sub", extras="server,agent"))


def test_missing_module_of_ours_is_a_fault_and_no_advice():
    with pytest.raises(ModuleNotFoundError):
        load(entry("llmgw.absent", extras="server"))


def test_missing_package_of_the_base_is_a_fault_and_no_advice():
    with pytest.raises(ModuleNotFoundError):
        load(entry("absent_package"))


def test_attribute_that_is_no_command_is_a_fault():
    with pytest.raises(TypeError, match="is not a command"):
        load(LazyCommand(module="llmgw.cli.root", attribute="main", help=""))


def test_unknown_name_is_no_command():
    assert group().get_command(click.Context(click.Command("tool")), "x") is None


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("nodess", "Did you mean 'nodes'"),
        ("clt", "Did you mean 'ctl'"),
        ("xyzzy", "No such command"),
    ],
)
def test_a_mistyped_command_is_told_what_may_have_been_meant(typed, says):
    table = {
        name: LazyCommand(module="nowhere", attribute="x", help="") for name in ("nodes", "ctl")
    }
    done = CliRunner().invoke(LazyGroup("top", table=table), [typed])
    assert done.exit_code == 2
    assert says in done.output
    assert ("mean" in done.output) is (typed != "xyzzy")


def test_a_process_that_began_without_collecting_collects_once_its_command_is_imported():
    gc.disable()
    try:
        load(entry("llmgw.cli.status_cmd"))
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.enable()


def test_commands_that_are_here_stand_behind_those_that_are_imported_when_they_run():
    tool = group(broken=entry("no.such.module"))

    @tool.command()
    def near() -> None:
        """At hand."""
        click.echo("here")

    shown = CliRunner().invoke(tool, ["--help"]).output
    assert shown.index("broken  About it.") < shown.index("near    At hand.")
    assert CliRunner().invoke(tool, ["near"]).output == "here\n"
    assert "No such command" in CliRunner().invoke(tool, ["absent"]).output
