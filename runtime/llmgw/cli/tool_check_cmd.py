"""``llmgw ctl tool-check``: whether a running model calls tools and writes JSON as it must."""

from __future__ import annotations

import contextlib
from dataclasses import asdict

import click
import httpx

from llmgw.cli import completing
from llmgw.cli.asking import Asking, asks
from llmgw.cli.failures import ExitCode
from llmgw.cli.screens import Column, Row
from llmgw.cli.tool_asking import ANSWER_TIMEOUT_S, ToolChecks
from llmgw.config import secrets, sources
from llmgw.errors import LlmgwError

DEFAULT_GATEWAY_URL = "http://127.0.0.1:8080"

_COLUMNS = (
    Column("QUESTION", is_whole=True),
    Column("RESULT", is_state=True),
    Column("DETAIL", is_whole=True),
)


@click.command("tool-check")
@click.argument("model", shell_complete=completing.models)
@click.option(
    "--url",
    default=DEFAULT_GATEWAY_URL,
    show_default=True,
    help="Client address of the gateway, or of an engine.",
)
@click.option(
    "--api-key",
    "key",
    default="",
    metavar="REFERENCE",
    help="Where the key lies: @/path/to/file or ${NAME}.",
)
@click.option("--engine", help="Kind of the engine, for advice.  [default: as its replica says]")
@asks
def tool_check(asking: Asking, *, model: str, url: str, key: str, engine: str | None) -> None:
    """Ask MODEL for a call of a tool, in one piece and as a stream, and for JSON.

    The requests go through the gateway and cost a few hundred tokens. A call that stands in the
    text instead tells which --tool-call-parser of vLLM or SGLang would have read it. Exit code 7
    when an answer is not as it must be.

    \b
    llmgw ctl tool-check llama
    """  # noqa: D301 - click reads \b
    secret = secrets.resolve(key, environ=sources.environment())
    headers = {"authorization": f"Bearer {secret}"} if secret else {}
    base = url.rstrip("/").removesuffix("/v1")
    with httpx.Client(
        base_url=base, headers=headers, timeout=ANSWER_TIMEOUT_S, trust_env=False
    ) as client:
        kind = engine or _engine_of(asking, model)
        verdicts = tuple(ToolChecks(client, model=model, engine=kind).run())
    if asking.is_json:
        document = {"model": model, "engine": kind or None, "checks": [*map(asdict, verdicts)]}
        asking.screen.document(document)
    else:
        rows = [Row((v.name, "ok" if v.is_good else "failed", v.detail)) for v in verdicts]
        asking.screen.table(_COLUMNS, rows)
    if not all(verdict.is_good for verdict in verdicts):
        click.get_current_context().exit(ExitCode.CHECK_SAID_NO)


def _engine_of(asking: Asking, model: str) -> str:
    """The kind of engine that serves it; nothing where no control plane knows."""
    with contextlib.suppress(LlmgwError):
        found = asking.client.replicas(model=model).value
        kinds = {replica.engine for replica in found}
        return kinds.pop() if len(kinds) == 1 else ""
    return ""
