"""``llmgw simulate``: fleets that do not exist, for trials of a control plane."""

from __future__ import annotations

from collections.abc import Mapping

import click

from llmgw.cli.lazy import LazyCommand, LazyGroup

COMMANDS: Mapping[str, LazyCommand] = {
    "agents": LazyCommand(
        module="llmgw.cli.simulate_agents_cmd",
        attribute="agents",
        help="Run many light agents against a real control plane.",
        extras="agent",
    ),
    "fleet": LazyCommand(
        module="llmgw.cli.simulate_fleet_cmd",
        attribute="fleet",
        help="See what the control plane makes of days of a fleet, within minutes.",
        extras="agent",
    ),
}
"""Every command of the group, in the order of the help."""


@click.group(cls=LazyGroup, table=COMMANDS)
def simulate() -> None:
    """Simulate nodes, to see what a control plane makes of them."""
