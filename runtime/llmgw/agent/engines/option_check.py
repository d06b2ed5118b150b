"""Compares every option that a driver may use with what its engine's programs document; pure.

The widest use that a driver can make is built: one node, several nodes, each capability.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from llmgw.agent.engines import help_texts
from llmgw.agent.engines.contract import Checkable, HelpQuestion
from llmgw.agent.engines.help_texts import Option
from llmgw.domain.engine_checks import ProgramCheck
from llmgw.domain.engine_options import TOOL_PARSER
from llmgw.domain.replicas import LaunchProfile, ShardSpec

_MODEL = "/models/trial"
_NAME = "trial"
_CONTEXT_TOKENS = 4096
_OWN_ARGS = (TOOL_PARSER, "trial")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")


@dataclass(frozen=True, slots=True)
class Use:
    """One option as a driver writes it."""

    flag: str
    value: str | None


def uses(driver: Checkable, question: HelpQuestion) -> tuple[Use, ...]:
    """Every option with which the driver starts one of its programs, in the order of first use."""
    prefix = question.words[1:-1]
    found: dict[Use, None] = {}
    for spec in _trials(driver.name):
        for command in driver.commands(spec):
            if command.name == question.command:
                args = command.args[len(prefix) :]
                found.update(dict.fromkeys(_read(args)))
    return tuple(found)


def compare(driver: Checkable, question: HelpQuestion, text: str) -> ProgramCheck:
    """What one program's own text says against how the driver uses it."""
    options, used = help_texts.parse(text), uses(driver, question)
    if not help_texts.is_whole(options):
        failure = "what it prints is no list of options, or is cut short: it does not name --help"
        return ProgramCheck(question.command, question.words, failure=failure)
    problems = tuple(dict.fromkeys(p for use in used if (p := _problem(use, options))))
    checked = len({use.flag for use in used})
    return ProgramCheck(question.command, question.words, checked=checked, problems=problems)


def _problem(use: Use, options: Mapping[str, Option]) -> str:
    option = options.get(use.flag)
    if option is None:
        return f"it has no option {use.flag}"
    if use.flag == TOOL_PARSER:
        return ""  # which parsers there are is told apart by tool-check
    if option.takes_value and use.value is None:
        return f"{use.flag} needs a value, and llmgw gives it none"
    if not option.takes_value and use.value is not None:
        return f"{use.flag} takes no value, and llmgw gives it {use.value!r}"
    if option.choices and use.value not in option.choices:
        return f"{use.flag} does not take {use.value!r}; legal: {', '.join(option.choices)}"
    return ""


def _read(args: Sequence[str]) -> Iterator[Use]:
    for position, arg in enumerate(args):
        if not arg.startswith("-") or _NUMBER.fullmatch(arg):
            continue
        after = args[position + 1] if position + 1 < len(args) else None
        is_value = after is not None and (not after.startswith("-") or _NUMBER.fullmatch(after))
        yield Use(arg, after if is_value else None)


def _trials(engine: str) -> Iterator[ShardSpec]:
    """Orders that make a driver use all that it knows."""
    for capabilities in ((), ("tools",), ("embeddings",)):
        args = _OWN_ARGS if "tools" in capabilities and engine in {"vllm", "sglang"} else ()
        yield _one_node(engine, args=args, capabilities=capabilities)
    if engine != "llamacpp":
        yield from (_rank(engine, number) for number in range(2))


def _one_node(engine: str, *, args: Sequence[str], capabilities: Sequence[str]) -> ShardSpec:
    profile = LaunchProfile(
        name=_NAME,
        engine=engine,
        model_path=_MODEL,
        served_model_name=_NAME,
        args=tuple(args),
        capabilities=tuple(capabilities),
        context_length=_CONTEXT_TOKENS,
    )
    return ShardSpec(_NAME, f"{_NAME}.0", profile, http_port=20000, gpu_indices=(0,))


def _rank(engine: str, number: int) -> ShardSpec:
    profile = LaunchProfile(
        name=_NAME,
        engine=engine,
        model_path=_MODEL,
        served_model_name=_NAME,
        tp=2,
        pp=2,
        nodes=2,
        gpus_per_node=2,
    )
    return ShardSpec(
        replica_id=_NAME,
        shard_id=f"{_NAME}.{number}",
        profile=profile,
        http_port=20000,
        rank=number,
        nnodes=2,
        leader_addr="192.0.2.1",
        leader_port=20001,
        gpu_indices=(0, 1),
    )
