"""``llmgw agent``: the agent of this node; the commands below it only look at the machine."""

from __future__ import annotations

from pathlib import Path

import click

from llmgw.cli import settings_files
from llmgw.cli.engine_check_cmd import engine_check
from llmgw.cli.inventory_cmd import inventory
from llmgw.config import loading, sources
from llmgw.kit import logs
from llmgw.serve import agent as agents
from llmgw.serve import loops


@click.group(invoke_without_command=True)
@settings_files.option(settings_files.AGENT, whose="The agent's")
@click.option("--server", help="Agent port of the control plane, host:7443.")
@click.option("--node-id", help="The node's name.")
@click.option("--mgmt-addr", help="Address on which engines listen.")
@click.pass_context
def agent(
    ctx: click.Context,
    *,
    config: Path | None,
    server: str | None,
    node_id: str | None,
    mgmt_addr: str | None,
) -> None:
    """Run the agent of this node.

    Every setting can be given by environment too: LLMGW_SERVER, LLMGW_NODE_ID, ...
    Ends by SIGTERM; engines go on and the next agent adopts them.

    \b
    llmgw agent --config /etc/llmgw/agent.yaml
    """  # noqa: D301 - click reads \b
    if ctx.invoked_subcommand is not None:
        return
    environ = sources.environment()
    file = settings_files.chosen(config, usual=settings_files.AGENT)
    written = {"server": server, "node_id": node_id, "mgmt_addr": mgmt_addr}
    given = {key: value for key, value in written.items() if value is not None}
    settings = loading.load_agent(file, environ=environ, overrides=given)
    logs.setup(level=settings.log.level, as_json=settings.log.format == "json")
    loops.run(agents.run(settings, environ=environ))


agent.add_command(engine_check)
agent.add_command(inventory)
