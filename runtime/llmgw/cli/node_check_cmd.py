"""``llmgw ctl engine-check``: whether engines on nodes take the options that we pass."""

from __future__ import annotations

from collections.abc import Sequence

import click

from llmgw.cli.asking import Asking, asks
from llmgw.cli.client import EngineAnswer
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.errors import Unknown

_COLUMNS = (
    Column("NODE", is_whole=True),
    Column("PROGRAM", is_whole=True),
    Column("RESULT", is_state=True),
    Column("DETAIL", is_whole=True),
)


@click.command("engine-check")
@click.argument("engine")
@click.option(
    "--node",
    "nodes",
    multiple=True,
    metavar="NODE",
    help="Only there; may be repeated.  [default: every connected node that has the engine]",
)
@asks
def engine_check(asking: Asking, *, engine: str, nodes: Sequence[str]) -> None:
    """Compare the options that llmgw gives ENGINE with what its programs say that they take.

    Each node asks its own programs, which vLLM and SGLang answer within a minute; nothing else is
    started there. Exit code 7 when an option is missing or takes other values.

    \b
    llmgw ctl engine-check vllm
    llmgw ctl engine-check llamacpp --node gpu01
    """  # noqa: D301 - click reads \b
    where = nodes or _with_engine(asking, engine)
    answers = [asking.client.check_engine(node, engine=engine) for node in where]
    if asking.is_json:
        asking.screen.document({"checks": [answer.document for answer in answers]})
    else:
        rows = [row for answer in answers for row in _rows(answer.value)]
        asking.screen.table(_COLUMNS, rows)
    if not all(answer.value.is_good for answer in answers):
        click.get_current_context().exit(ExitCode.CHECK_SAID_NO)


def _with_engine(asking: Asking, engine: str) -> Sequence[str]:
    found = [n.node_id for n in asking.client.nodes(engine=engine).value if n.is_connected]
    if not found:
        raise Unknown(f"no connected node has an engine {engine!r}; name one with --node")
    return found


def _rows(answer: EngineAnswer) -> Sequence[Row]:
    return [
        Row(
            (
                answer.node_id,
                program.subject,
                "ok" if program.is_done else "failed",
                program.detail,
            )
        )
        for program in answer.programs
    ]
