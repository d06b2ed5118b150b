"""``llmgw agent engine-check``: whether an engine on this machine takes our options."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from llmgw.agent.engines import help_asking, option_check, registry
from llmgw.agent.engines.contract import Checkable
from llmgw.cli import screens, settings_files
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.config import loading, sources
from llmgw.config.settings import AgentSettings
from llmgw.config.tending import EnginesSettings, LlamaCppSettings, SglangSettings, SimSettings
from llmgw.domain.engine_checks import EngineCheck, ProgramCheck
from llmgw.errors import Invalid

_LISTEN = "192.0.2.1"
"""Any address will do: nothing is started."""

_COLUMNS = (
    Column("PROGRAM", is_whole=True),
    Column("OPTIONS", is_whole=True),
    Column("RESULT", is_state=True, is_whole=True),
)


@click.command("engine-check")
@click.argument("engine")
@settings_files.option(settings_files.AGENT, whose="The agent's")
@click.option("--bin", "program", metavar="PATH", help="Another program than the agent's.")
@click.option(
    "--help-output",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read what the program says from this file, and run nothing.",
)
@click.option("--json", "is_json", is_flag=True, help="One JSON document, for programs.")
@click.pass_context
def engine_check(
    ctx: click.Context,
    *,
    engine: str,
    config: Path | None,
    program: str | None,
    help_output: Path | None,
    is_json: bool,
) -> None:
    """Compare the options that llmgw gives ENGINE with what its programs say that they take.

    Runs each program with its help option, which needs no card; vLLM and SGLang take a minute. Exit
    code 7 when an option is missing or takes other values.

    \b
    llmgw agent engine-check vllm
    """  # noqa: D301 - click reads \b
    environ = sources.environment()
    file = settings_files.chosen(config, usual=settings_files.AGENT)
    settings = loading.load_agent(file, environ=environ, needs_server=False)
    if program:
        settings = _started_by(settings, engine, program)
    driver = registry.checkable(
        engine, registry.drivers(settings, mgmt_addr=_LISTEN, environ=environ)
    )
    if help_output is None:
        checked = help_asking.check(driver, environ=environ)
    else:
        checked = _read(driver, help_output)
    show(checked, is_json=is_json)
    if not checked.is_good:
        ctx.exit(ExitCode.CHECK_SAID_NO)


def show(checked: EngineCheck, *, is_json: bool) -> None:
    """A line for each program, and one for each of its faults."""
    screen = screens.standard()
    if is_json:
        screen.document({**dataclasses.asdict(checked), "is_good": checked.is_good})
        return
    screen.table(_COLUMNS, [_row(program) for program in checked.programs])


def _row(program: ProgramCheck) -> Row:
    said = (program.failure,) if program.failure else program.problems
    result = "ok" if program.is_good else "failed"
    return Row((" ".join(program.words), str(program.checked), result), under=said)


def _read(driver: Checkable, text: Path) -> EngineCheck:
    """What a recorded text says of the first program, which is the engine itself."""
    question = driver.help_questions()[0]
    compared = option_check.compare(driver, question, text.read_text(errors="replace"))
    return EngineCheck(driver.name, (compared,))


def _started_by(settings: AgentSettings, engine: str, program: str) -> AgentSettings:
    """The settings with one engine's program replaced."""
    engines = settings.engines
    match engine:
        case "llamacpp":
            made = dataclasses.replace(engines, llamacpp=LlamaCppSettings(bin=program))
        case "sglang":
            made = dataclasses.replace(engines, sglang=SglangSettings(python=program))
        case "sim":
            made = dataclasses.replace(engines, sim=SimSettings(bin=program))
        case "vllm":
            made = _vllm_started_by(engines, program)
        case _:
            raise Invalid(f"{engine!r} is no engine whose program can be named")
    return dataclasses.replace(settings, engines=made)


def _vllm_started_by(engines: EnginesSettings, program: str) -> EnginesSettings:
    vllm = dataclasses.replace(engines.vllm, bin=program, ray_bin="")
    return dataclasses.replace(engines, vllm=vllm)
