"""The command ``llmgw``: the table of its subcommands and the entry of the console script."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence

import click

import llmgw
from llmgw.cli import failures
from llmgw.cli.lazy import LazyCommand, LazyGroup
from llmgw.config import foreign_logs

CONTEXT_SETTINGS: Mapping[str, object] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}

EXIT_CODES = """\b
Exit codes:
  0 ok                        5 refused, or in conflict
  1 failed                    6 not in time
  2 usage or configuration    7 a check said no
  3 no control plane          130 interrupted
  4 no such thing
"""

COMMANDS: Mapping[str, LazyCommand] = {
    "up": LazyCommand(
        module="llmgw.cli.up_cmd",
        attribute="up",
        help="Run everything on this machine: control plane, gateway, agent and a model.",
        extras="server,agent,local",
    ),
    "server": LazyCommand(
        module="llmgw.cli.server_cmd",
        attribute="server",
        help="Run the control plane and the gateway, or the gateway alone in front of endpoints.",
        extras="server",
    ),
    "gateway": LazyCommand(
        module="llmgw.cli.gateway_cmd",
        attribute="gateway",
        help="Run a gateway on a host of its own, which follows a control plane elsewhere.",
        extras="server",
    ),
    "agent": LazyCommand(
        module="llmgw.cli.agent_cmd",
        attribute="agent",
        help="Run the agent of this node, or show what it finds here.",
        extras="agent",
    ),
    "ctl": LazyCommand(
        module="llmgw.cli.ctl_cmd",
        attribute="ctl",
        help="Ask a running control plane, and make its certificates.",
    ),
    "keys": LazyCommand(
        module="llmgw.cli.keys_cmd",
        attribute="keys",
        help="Make keys, say what they may use, and end them.",
    ),
    "users": LazyCommand(
        module="llmgw.cli.users_cmd",
        attribute="users",
        help="Let people in and out.",
    ),
    "engine": LazyCommand(
        module="llmgw.cli.engine_cmd",
        attribute="engine",
        help="Install engines on this machine, check them, list them.",
    ),
    "bench": LazyCommand(
        module="llmgw.cli.bench_cmd",
        attribute="bench",
        help="Measure how many requests at once an OpenAI endpoint carries.",
    ),
    "unit": LazyCommand(
        module="llmgw.cli.unit_cmd",
        attribute="unit",
        help="Print the systemd unit of the server, the agent or a gateway.",
    ),
    "config": LazyCommand(
        module="llmgw.cli.config_cmd",
        attribute="config",
        help="Check settings files.",
    ),
    "sim-engine": LazyCommand(
        module="llmgw.cli.sim_engine_cmd",
        attribute="sim_engine",
        help="Run an engine that answers without a model, for tests and trials.",
        extras="agent",
    ),
    "simulate": LazyCommand(
        module="llmgw.cli.simulate_cmd",
        attribute="simulate",
        help="Simulate nodes, to see what a control plane makes of them.",
    ),
    "replay": LazyCommand(
        module="llmgw.cli.replay_cmd",
        attribute="replay",
        help="Decide recorded passes of a control plane once more, and compare.",
    ),
    "completion": LazyCommand(
        module="llmgw.cli.completion_cmd",
        attribute="completion",
        help="Print the script with which a shell completes commands and names.",
    ),
    "llama-server": LazyCommand(
        module="llmgw.cli.llama_server_cmd",
        attribute="llama_server",
        help="Run llama.cpp's HTTP server from the xllamacpp package.",
        extras="local",
    ),
    "worker": LazyCommand(
        module="llmgw.cli.worker_cmd",
        attribute="worker",
        help="Run one gateway worker; 'llmgw server' starts these.",
        extras="gateway",
        is_hidden=True,
    ),
}
"""Every command of the product, in the order of the help."""


@click.group(cls=LazyGroup, table=COMMANDS, context_settings=CONTEXT_SETTINGS, epilog=EXIT_CODES)
@click.version_option(llmgw.__version__, prog_name="llmgw", message="%(prog)s %(version)s")
def root() -> None:
    """Language models on machines that you own, behind one OpenAI-compatible endpoint.

    Start with 'llmgw up'.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run ``llmgw`` with these arguments (those of the process when absent); the exit code."""
    gc.disable()  # until the command is imported: all that this makes stays, and a sixth is looking
    foreign_logs.silence()
    return failures.run(root, args=args)
