"""``llmgw ctl``: the table of commands that ask a running control plane."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from llmgw.cli.ctl_options import CtlOptions
from llmgw.cli.lazy import LazyCommand, LazyGroup
from llmgw.cli.params import DURATION

DEFAULT_ADMIN_URL = "http://127.0.0.1:9090"

COMMANDS: Mapping[str, LazyCommand] = {
    "status": LazyCommand(
        module="llmgw.cli.status_cmd",
        attribute="status",
        help="The fleet on one page.",
    ),
    "nodes": LazyCommand(
        module="llmgw.cli.nodes_cmd",
        attribute="nodes",
        help="The machines, what they have and what of that is promised.",
    ),
    "models": LazyCommand(
        module="llmgw.cli.models_cmd",
        attribute="models",
        help="The catalog, and how much of each model runs.",
    ),
    "model": LazyCommand(
        module="llmgw.cli.model_cmd",
        attribute="model",
        help="Add, change and remove models.",
    ),
    "scale": LazyCommand(
        module="llmgw.cli.scale_cmd",
        attribute="scale",
        help="How many replicas of a model run.",
    ),
    "replicas": LazyCommand(
        module="llmgw.cli.replicas_cmd",
        attribute="replicas",
        help="What runs, where, since when, and how far a start is.",
    ),
    "explain-placement": LazyCommand(
        module="llmgw.cli.placement_cmd",
        attribute="explain_placement",
        help="Why a model runs where it does, or nowhere.",
    ),
    "plan": LazyCommand(
        module="llmgw.cli.plan_cmd",
        attribute="plan",
        help="What the next pass would do, or on which cards a model fits.",
    ),
    "what-if": LazyCommand(
        module="llmgw.cli.what_if_cmd",
        attribute="what_if",
        help="What would come of it if a node went, or a model came.",
    ),
    "wait": LazyCommand(
        module="llmgw.cli.wait_cmd",
        attribute="wait",
        help="Wait until a model serves, with its progress.",
    ),
    "logs": LazyCommand(
        module="llmgw.cli.logs_cmd",
        attribute="logs",
        help="The end of a log of a node.",
    ),
    "engine-check": LazyCommand(
        module="llmgw.cli.node_check_cmd",
        attribute="engine_check",
        help="Whether engines on nodes take the options that llmgw gives them.",
    ),
    "tool-check": LazyCommand(
        module="llmgw.cli.tool_check_cmd",
        attribute="tool_check",
        help="Whether a running model calls tools and writes JSON as clients expect.",
    ),
    "cordon": LazyCommand(
        module="llmgw.cli.node_state_cmd",
        attribute="cordon",
        help="Keep new replicas away from a node.",
    ),
    "drain": LazyCommand(
        module="llmgw.cli.node_state_cmd",
        attribute="drain",
        help="Move all replicas of a node to others.",
    ),
    "uncordon": LazyCommand(
        module="llmgw.cli.node_state_cmd",
        attribute="uncordon",
        help="Let a node take replicas again.",
    ),
    "forget": LazyCommand(
        module="llmgw.cli.node_membership_cmd",
        attribute="forget",
        help="Forget a node that is gone for good.",
    ),
    "ban": LazyCommand(
        module="llmgw.cli.node_membership_cmd",
        attribute="ban",
        help="Let the agent of a node in no more.",
    ),
    "unban": LazyCommand(
        module="llmgw.cli.node_membership_cmd",
        attribute="unban",
        help="Let the agent of a node in again.",
    ),
    "weights": LazyCommand(
        module="llmgw.cli.weights_cmd",
        attribute="weights",
        help="Downloads on nodes: what is on its way, and what no model names.",
    ),
    "fetch": LazyCommand(
        module="llmgw.cli.fetch_cmd",
        attribute="fetch",
        help="Have nodes fetch a model's weights ahead of its start.",
    ),
    "usage": LazyCommand(
        module="llmgw.cli.usage_cmd",
        attribute="usage",
        help="What was used, by whom, and what it cost.",
    ),
    "audit": LazyCommand(
        module="llmgw.cli.audit_cmd",
        attribute="audit",
        help="Who changed what, and what was refused.",
    ),
    "engines": LazyCommand(
        module="llmgw.cli.engines_cmd",
        attribute="engines",
        help="Which engines are on which nodes, and where one is missing.",
    ),
    "bench": LazyCommand(
        module="llmgw.cli.replica_bench_cmd",
        attribute="bench",
        help="How many requests at once a running replica carries.",
    ),
    "capacity": LazyCommand(
        module="llmgw.cli.capacity_cmd",
        attribute="capacity",
        help="What ways to run models were measured to carry.",
    ),
    "decisions": LazyCommand(
        module="llmgw.cli.decisions_cmd",
        attribute="decisions",
        help="What the last passes did, and why.",
    ),
    "brake": LazyCommand(
        module="llmgw.cli.brake_cmd",
        attribute="brake",
        help="Whether many nodes fell silent at once, and the end of that.",
    ),
    "refusals": LazyCommand(
        module="llmgw.cli.refusals_cmd",
        attribute="refusals",
        help="Who wanted to join and was not let in, and why.",
    ),
    "support-bundle": LazyCommand(
        module="llmgw.cli.support_bundle_cmd",
        attribute="support_bundle",
        help="What somebody who helps has to see, with nothing secret in it.",
    ),
    "cert": LazyCommand(
        module="llmgw.cli.cert_cmd",
        attribute="cert",
        help="Make and look at the certificates of servers and nodes.",
        extras="server",
    ),
}
"""Every command of the group, in the order of the help."""


@click.group(cls=LazyGroup, table=COMMANDS)
@click.option(
    "--admin",
    "admin_url",
    metavar="URL",
    envvar="LLMGW_CTL_URL",
    default=DEFAULT_ADMIN_URL,
    show_default=True,
    show_envvar=True,
    help="Admin address of the control plane.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=DURATION,
    help="Longest wait for one answer.  [default: 15s, more for what takes longer]",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with a token that is sent along, where a proxy in front asks for one.",
)
@click.option("--no-headers", is_flag=True, help="Tables without their first line.")
@click.pass_context
def ctl(
    ctx: click.Context,
    *,
    admin_url: str,
    timeout_s: float | None,
    token_file: Path | None,
    no_headers: bool,
) -> None:
    """Ask a running control plane, and make its certificates."""
    ctx.obj = CtlOptions(
        admin_url=admin_url,
        timeout_s=timeout_s,
        token_file=token_file,
        has_headers=not no_headers,
    )
