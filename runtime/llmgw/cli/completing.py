"""Names of models and nodes for the completion of a shell, asked of the control plane.

A shell waits for the answer while somebody types: after a second there is none, and no error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click

from llmgw.cli.client import AdminClient
from llmgw.errors import LlmgwError

WITHIN_S = 1.0


def models(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names and aliases of the catalog that begin so."""
    return _matching(
        ctx,
        lambda client: [n for m in client.models().value for n in (m.name, *m.aliases)],
        incomplete,
    )


def nodes(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of nodes that begin so."""
    return _matching(ctx, lambda client: [n.node_id for n in client.nodes().value], incomplete)


def replicas(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of replicas that begin so."""
    return _matching(
        ctx, lambda client: [r.replica_id for r in client.replicas().value], incomplete
    )


def _matching(
    ctx: click.Context, ask: Callable[[AdminClient], Iterable[str]], incomplete: str
) -> list[str]:
    url = ctx.params.get("admin") or _group_url(ctx)
    if not url:
        return []
    try:
        with AdminClient(url=url, timeout_s=WITHIN_S) as client:
            return sorted(name for name in ask(client) if name.startswith(incomplete))
    except LlmgwError:
        return []


def _group_url(ctx: click.Context) -> str:
    """What ``ctl`` would ask, as given, from the environment, or by default."""
    above: click.Context | None = ctx
    while above is not None:
        if "admin_url" in above.params:
            return str(above.params["admin_url"])
        above = above.parent
    return ""
